"""Tokens of OAuth: what is asked, which answers grant one, and how long it is used (ADR 146)."""

import base64
import json
from math import inf
from typing import Any

import pytest

from smartcrawl.rules.oauth import (
    LEAST_SECONDS,
    GrantedToken,
    client_authorization,
    client_grant_body,
    granted_token,
    token_refusal,
)


def answer(**fields: Any) -> bytes:
    return json.dumps({"access_token": "8c1f"} | fields).encode()


@pytest.mark.parametrize(
    ("fields", "renewed_at", "until"),
    [
        ({}, inf, inf),
        ({"expires_in": None}, inf, inf),
        ({"expires_in": 3600}, 1000 + 3540, 1000 + 3600),
        ({"expires_in": "3600", "token_type": "BEARER"}, 1000 + 3540, 1000 + 3600),
        ({"expires_in": 241}, 1000 + 181, 1000 + 241),
        ({"expires_in": 100}, 1000 + 75, 1000 + 100),
        ({"expires_in": 10}, 1000 + 8, 1000 + 10),
    ],
)
def test_a_token_is_renewed_before_its_end(fields: Any, renewed_at: float, until: float):
    assert granted_token(answer(**fields), 1000) == GrantedToken("8c1f", renewed_at, until)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "its answer has no access_token"),
        (b"[1]", "its answer has no access_token"),
        (b"[" * 100_000, "its answer has no access_token"),
        (b"{}", "its answer has no access_token"),
        (answer(access_token=7), "its answer has no access_token"),
        (answer(access_token=""), "its answer has no access_token"),
        (answer(access_token="a\r\nb"), "its answer has no access_token"),
        (answer(access_token="é"), "its answer has no access_token"),
        (answer(token_type="mac"), "its token is of another type than Bearer"),
        (answer(token_type=7), "its token is of another type than Bearer"),
        (answer(expires_in="soon"), "its expires_in is no number"),
        (answer(expires_in=[]), "its expires_in is no number"),
        (b'{"access_token": "a", "expires_in": 1e999}', "its expires_in is no number"),
        (answer(expires_in=9), "its tokens last for fewer than 10 seconds"),
        (answer(expires_in=-1), "its tokens last for fewer than 10 seconds"),
    ],
)
def test_an_answer_that_grants_no_token_says_why_and_nothing_else(body: bytes, words: str):
    with pytest.raises(ValueError, match=f"^{words}$") as caught:
        granted_token(body, 1000)
    assert caught.value.__cause__ is None
    assert LEAST_SECONDS == 10


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b'{"error": "invalid_client", "error_description": "hunter2"}', ", invalid_client"),
        (b'{"error": "Bad <b>"}', ""),
        (b'{"error": 7}', ""),
        (b'{"error": "' + b"a" * 40 + b'"}', ", " + "a" * 40),
        (b'{"error": "' + b"a" * 41 + b'"}', ""),
        (b"", ""),
        (b"[]", ""),
    ],
)
def test_a_refusal_shows_a_word_of_the_protocol_alone(body: bytes, word: str):
    assert token_refusal(body) == word


def test_a_client_asks_in_its_own_name():
    assert client_grant_body(None) == b"grant_type=client_credentials"
    assert client_grant_body("a b") == b"grant_type=client_credentials&scope=a+b"
    pair = base64.b64encode(b"b%3At:p+%C3%A4").decode()
    assert client_authorization("b:t", "p ä") == f"Basic {pair}"
