"""Sends a notice to a target: a webhook, a mail server, or a service of apprise.

Webhooks are signed as Standard Webhooks has it, and go through the guard of addresses. Mail servers
and services of apprise are the operator's own choice, and are asked as they are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import importlib
import smtplib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from threading import Thread
from typing import Any, Final

from smartcrawl import __version__
from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.notify_targets import NotifyTarget
from smartcrawl.model.program import extra_installation
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.secrets import VARIABLE, read_secret
from smartcrawl.model.urls import request_url
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.sources.web_client import WebClient, WebError

SECONDS: Final = 5.0  #: for one attempt
_ANSWER: Final = 65_536  #: bytes of an answer that are read
_SIGNED: Final = "whsec_"
_GONE: Final = 410


class NoticeError(SmartcrawlError):
    """A target did not take a notice; the text is the reason."""


class TargetClosedError(NoticeError):
    """A target wants nothing any more."""


@dataclass(frozen=True, slots=True)
class Letter:
    """What is sent."""

    id: str
    at: int  #: Unix seconds of this attempt
    title: str
    text: str
    body: bytes  #: JSON, for webhooks


def webhook_signature(secret: str, id_: str, at: int, body: bytes) -> str:
    """Return the value of ``webhook-signature`` for a secret as in ``whsec_MfKQ9r8G…``.

    Raises:
        NoticeError: it is no secret of Standard Webhooks.

    Source: Standard Webhooks 1.0, section "Signature scheme".
    """
    try:
        key = base64.b64decode(secret.removeprefix(_SIGNED), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(_SIGNED) or not key:
        raise NoticeError(
            "the secret is not whsec_ and base64: make one with"
            " echo whsec_$(openssl rand -base64 32), and give it to both sides"
        )
    signed = f"{id_}.{at}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def send_notice(
    target: NotifyTarget, letter: Letter, guard: ConnectionGuard, *, seconds: float = SECONDS
) -> None:
    """Send a notice within some seconds.

    Raises:
        TargetClosedError: the target answered 410.
        NoticeError: it did not take the notice.
    """
    try:
        match target.kind:
            case "webhook":
                _send_webhook(target, letter, guard, seconds)
            case "mail":
                _within(seconds, lambda: _send_mail(target, letter, seconds))
            case _:
                service = _apprise_service(target)  # loading it takes no time of the service
                _within(seconds, lambda: _send_by_apprise(service, letter))
    except ValueError as error:  # of a secret
        raise NoticeError(str(error)) from error


def _send_webhook(
    target: NotifyTarget, letter: Letter, guard: ConnectionGuard, seconds: float
) -> None:
    url = target.place
    if VARIABLE.fullmatch(url):
        name, found = url, request_url(read_secret(url).reveal())
        if found is None:
            raise NoticeError(f"the variable {name} has no http or https address")
        url = found
    assert target.secret is not None, "a webhook has one"
    secret = read_secret(target.secret, target.folder).reveal()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"smartcrawl/{__version__}",
        "webhook-id": letter.id,
        "webhook-timestamp": str(letter.at),
        "webhook-signature": webhook_signature(secret, letter.id, letter.at, letter.body),
    }
    try:
        answer = WebClient(guard).ask_now(
            url, headers, most=_ANSWER, seconds=seconds, body=letter.body
        )
    except WebError as error:
        raise NoticeError(redacted_text(str(error))) from error
    if answer.status == _GONE:
        raise TargetClosedError(
            "it answered 410 (gone), so nothing is sent to it any more: remove its table, or"
            " open it again with smartcrawl notify --retry"
        )
    if 300 <= answer.status < 400:
        raise NoticeError(
            f"it answered {answer.status}, and redirects are not followed: write the address"
            " that it leads to"
        )
    if not 200 <= answer.status < 300:
        raise NoticeError(f"it answered {answer.status}")


def _send_mail(target: NotifyTarget, letter: Letter, seconds: float) -> None:
    assert target.server is not None, "a mail has one"
    server, tls = target.server, ssl.create_default_context()
    message = EmailMessage()
    message["From"], message["To"] = target.sender, target.place
    message["Subject"] = letter.title
    message["Date"] = format_datetime(datetime.fromtimestamp(letter.at, UTC))
    message["Message-ID"] = f"<{letter.id}@{target.sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(letter.text)
    login = _mail_login(target)
    try:
        if server.scheme == "smtps":
            client: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, timeout=seconds, context=tls
            )
        else:
            client = smtplib.SMTP(server.host, server.port, timeout=seconds)
        with client:
            if server.scheme == "submission":
                client.starttls(context=tls)
            if login is not None:
                client.login(*login)
            client.send_message(message)
    except (OSError, smtplib.SMTPException) as error:
        reason = redacted_text(str(error) or type(error).__name__)
        raise NoticeError(f"{server.host}: {reason}") from error


def _mail_login(target: NotifyTarget) -> tuple[str, str] | None:
    """Return user and password of a mail server; None: it wants none."""
    if target.user is None or target.secret is None:
        return None
    password = read_secret(target.secret, target.folder).reveal()
    if not f"{target.user}{password}".isascii():  # the error of smtplib has the character
        raise NoticeError("user and password of a mail server take ASCII characters alone")
    return target.user, password


def _apprise_service(target: NotifyTarget) -> Any:
    try:
        apprise: Any = importlib.import_module("apprise")
    except ImportError as error:
        raise NoticeError(f"apprise is not installed: {extra_installation('notify')}") from error
    service = apprise.Apprise()
    if not service.add(read_secret(target.place, target.folder).reveal()):
        raise NoticeError(f"apprise does not know the URL in {target.place}")
    return service


def _send_by_apprise(service: Any, letter: Letter) -> None:
    if not service.notify(title=letter.title, body=letter.text):
        raise NoticeError("apprise could not deliver it; its log has the reason")


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Do ``work`` in a thread; a server that goes on byte by byte is left to it."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # the caller gets it
            failed.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise NoticeError(f"no answer within {seconds:g} s")
    if failed:
        raise failed[0]
