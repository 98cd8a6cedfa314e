"""Groups of options, each of one server or of one part, read and validated once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import SplitResult, unquote, urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.openai_server import OpenAIServerOptions, whole_path
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.settings_table import ROBOTS_PARSER, SETTINGS, setting_value


@dataclass(frozen=True, slots=True)
class RobotsOptions:
    """The parser of robots.txt, and the robot that it is read for."""

    named: Any  #: the parser: a class of Scrapy's RobotParser interface, or its path
    agent: str | None  #: for which robots.txt is read; None: for ``user_agent``
    user_agent: str

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options.

        Raises:
            SettingError: ROBOTSTXT_PARSER names no parser.
        """
        agent = settings.get("ROBOTSTXT_USER_AGENT") or None
        named = ROBOTS_PARSER.read(settings["ROBOTSTXT_PARSER"])
        return cls(named, agent, str(settings["USER_AGENT"]))

    @property
    def parser(self) -> type[Any]:
        """The class that reads robots.txt; most commands need none, and do not import it."""
        return ROBOTS_PARSER.loaded(self.named)


def robots_parser_option(settings: Mapping[str, Any]) -> type[Any]:
    """Return the class of Scrapy's RobotParser interface that reads robots.txt.

    Raises:
        SettingError: ROBOTSTXT_PARSER names no such class.
    """
    return ROBOTS_PARSER.loaded(settings["ROBOTSTXT_PARSER"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of the HTTP API. No field has a default: defaults are in ``settings.py``."""

    host: str  #: address to listen at
    port: int  #: 0: a free one
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...]  #: whose X-Forwarded-For counts
    jobs_limit: int  #: requests a minute that change something (R2-07)
    data_limit: int  #: requests a minute for documents and searches
    monitoring_limit: int  #: requests a minute for states and counts
    pages_limit: int  #: requests a minute for pages, of a session
    origins: tuple[str, ...]  #: whose pages may search from a browser
    require_idempotency_key: bool  #: whether a request without one is refused (M-40)
    takes_indexnow: bool  #: whether /indexnow is served, without a key (R1-53)
    max_running_jobs: int  #: crawls of jobs at once; others wait in order
    scrapyd_url: str = field(repr=False)  #: it may have a password; "": processes of this machine
    scrapyd_project: str
    robots: RobotsOptions

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        value_of = partial(setting_value, settings)
        return cls(
            host=value_of("API_HOST"),
            port=value_of("API_PORT"),
            trusted_proxies=value_of("API_TRUSTED_PROXIES"),
            jobs_limit=value_of("API_JOBS_PER_MINUTE"),
            data_limit=value_of("API_DATA_PER_MINUTE"),
            monitoring_limit=value_of("API_MONITORING_PER_MINUTE"),
            pages_limit=value_of("API_PAGES_PER_MINUTE"),
            origins=value_of("API_ORIGINS"),
            require_idempotency_key=value_of("API_REQUIRE_IDEMPOTENCY_KEY"),
            takes_indexnow=value_of("API_INDEXNOW"),
            max_running_jobs=value_of("MAX_RUNNING_JOBS"),
            scrapyd_url=_scrapyd_url(settings),
            scrapyd_project=value_of("SCRAPYD_PROJECT"),
            robots=RobotsOptions.of(settings),
        )

    @property
    def keys_required(self) -> bool:
        """Whether every request needs a key: others than processes of this machine may come."""
        return bool(self.trusted_proxies) or not ip_address(self.host).is_loopback


def _scrapyd_url(settings: Mapping[str, Any]) -> str:
    """Return the address of scrapyd; an error does not repeat it, for it may have a password."""
    value = setting_value(settings, "SCRAPYD_URL")
    try:
        parts = urlsplit(value)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_plain = not parts.query and not parts.fragment and value.isascii()
    except ValueError:
        is_url = is_plain = False
    if value and not (is_url and is_plain and value.isprintable() and " " not in value):
        raise SettingError(
            "SCRAPYD_URL is not the address of a scrapyd: expected one such as"
            " http://NAME:PASSWORD@localhost:6800/, with the name and the password"
            " percent-encoded, or nothing for processes of this machine"
        )
    return str(value)


_REST: Final = re.compile(r"[?#].*", re.DOTALL)  #: parts that no address has
#: Default ports by scheme.
_PORTS: Final[Mapping[str, int]] = {"http": 9200, "https": 443}


@dataclass(frozen=True, slots=True)
class ElasticsearchTarget:
    """One Elasticsearch, and smartcrawl's indices in it. Its ``repr`` contains no secret."""

    url: str  #: scheme, host, port and path, without credentials
    prefix: str = "smartcrawl"  #: name of the searched alias, and beginning of all index names
    api_key: str = field(default="", repr=False)  #: as Elasticsearch shows it: "encoded"
    user: str = ""
    password: str = field(default="", repr=False)
    ca_certs: Path | None = None  #: PEM file of authorities, trusted beside those of the system

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self | None:
        """Read the target from the settings; None where ``ELASTICSEARCH_URL`` is empty.

        Raises:
            SettingError: naming the setting and what it takes; secrets are not repeated.
        """
        prefix = setting_value(settings, "ELASTICSEARCH_INDEX_PREFIX")
        certificates = _certificates(setting_value(settings, "ELASTICSEARCH_CA_CERTS"))
        address = setting_value(settings, "ELASTICSEARCH_URL")
        if not address:
            return None
        parts, port = _parts(address)
        user, password, api_key = _credentials(settings, parts)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return cls(
            url=f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}",
            prefix=prefix,
            api_key=api_key,
            user=user,
            password=password,
            ca_certs=certificates,
        )


def _parts(address: str) -> tuple[SplitResult, int]:
    """Return the parts of the address, its scheme in lower case, and its port."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment:
        raise SettingError(
            f"ELASTICSEARCH_URL is {redacted_text(_REST.sub('', address))!r}: expected an"
            " address such"
            " as https://search.example:9200, or https://USER:PASSWORD@search.example:9200"
        )
    return parts, _PORTS[parts.scheme] if port is None else port


def _credentials(settings: Mapping[str, Any], parts: SplitResult) -> tuple[str, str, str]:
    """Return user, password and API key; at most one of the last two is not empty."""
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    api_key = setting_value(settings, "ELASTICSEARCH_API_KEY").strip()
    for name, in_url in (("ELASTICSEARCH_USERNAME", user), ("ELASTICSEARCH_PASSWORD", password)):
        if in_url and setting_value(settings, name).strip() not in ("", in_url):
            raise SettingError(
                f"{name} is another one than in ELASTICSEARCH_URL: leave one of them out"
            )
    user = user or setting_value(settings, "ELASTICSEARCH_USERNAME")
    password = password or setting_value(settings, "ELASTICSEARCH_PASSWORD")
    if bool(user) != bool(password):
        raise SettingError(
            "ELASTICSEARCH_USERNAME and ELASTICSEARCH_PASSWORD belong together:"
            f" the {'user' if password else 'password'} is missing"
        )
    if user and api_key:
        raise SettingError(
            "ELASTICSEARCH_API_KEY is given beside a user and a password: leave one of them out"
        )
    return user, password, api_key


def _certificates(value: str) -> Path | None:
    if not value:
        return None
    path = whole_path(value)
    if not path.is_file():
        raise SettingError(
            f"ELASTICSEARCH_CA_CERTS is {value!r}: there is no such file; expected the path of a"
            " PEM file with the certificate that signed the server's"
        )
    return path


LOCAL: Final = "local"
ONNX: Final = "onnx"
ON_THIS_MACHINE: Final = frozenset({LOCAL, ONNX})  #: those whose model is not in the settings
#: The limit of an index of PostgreSQL's halfvec; Elasticsearch has 4,096.
MOST_DIMENSIONS: Final = int(SETTINGS["EMBEDDING_DIMENSION"].most)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderOptions(OpenAIServerOptions):
    """The options of an embedder. No field has a default: defaults are in ``settings.py``.

    ``folder`` is that of ``onnx``; all others but ``name`` are those of ``openai``.
    """

    name: str  #: local, onnx or openai; empty: the settings name none
    folder: Path | None  #: of the model's files
    model: str
    dimension: int  #: numbers of each vector
    batch_texts: int  #: texts in a request, at most
    batch_tokens: int  #: estimated tokens in a request, at most
    timeout: int  #: seconds for one answer
    wait: int  #: seconds to wait for a server that is away, once in an outage

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self | None:
        """Read the options; None where ``EMBEDDER`` is empty: a crawl makes no vectors.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        options = cls.of_questions(settings)
        return options if options.name else None

    @classmethod
    def of_questions(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options for questions: the registry may name the embedder, not the settings.

        Raises:
            SettingError: as of ``of``.
        """
        value_of = partial(setting_value, settings)
        name, folder = value_of("EMBEDDER"), value_of("EMBEDDING_FOLDER")
        if name == ONNX and folder is None:
            raise missing_embedding_folder()
        return cls(
            name=name,
            folder=folder,
            url=_url(value_of("EMBEDDING_URL")),
            model=value_of("EMBEDDING_MODEL"),
            dimension=value_of("EMBEDDING_DIMENSION"),
            batch_texts=value_of("EMBEDDING_BATCH_TEXTS"),
            batch_tokens=value_of("EMBEDDING_BATCH_TOKENS"),
            timeout=value_of("EMBEDDING_TIMEOUT_SECONDS"),
            wait=value_of("EMBEDDING_WAIT_SECONDS"),
            ca_file=value_of("CA_FILE"),
            has_proxies=value_of("HTTPPROXY_ENABLED"),
        )


def _url(url: str) -> str:
    if url.endswith("/embeddings"):
        raise SettingError(
            f"EMBEDDING_URL is {url!r}: expected the address without /embeddings at its end, such"
            f" as {url.removesuffix('/embeddings')}"
        )
    return url


def missing_embedding_folder() -> SettingError:
    """Return the error of ``onnx`` without the folder of its model."""
    return SettingError(
        "EMBEDDING_FOLDER is empty, and the vectors are those of 'onnx': expected the folder of a"
        " sentence model with model.onnx and tokenizer.json"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankOptions:
    """The cross-encoder that orders the first hits. No field has a default."""

    folder: Path  #: of the model's files
    seconds: float  #: for all pairs of one search

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self | None:
        """Read the options; None where ``RERANK_FOLDER`` is empty.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        folder = setting_value(settings, "RERANK_FOLDER")
        seconds = setting_value(settings, "RERANK_SECONDS")
        return None if folder is None else cls(folder=folder, seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStoreOptions(OpenAIServerOptions):
    """The vector store that pages are pushed to. ``url`` ends in /v1; no field has a default."""

    store: str  #: id of the store
    wait: int  #: seconds to wait until the store has embedded what it was given
    away: int  #: seconds to wait for a server that is away or busy, once in an outage
    concurrency: int  #: files that are given to it at the same time, 1 to 16

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self | None:
        """Read the options; None where ``VECTOR_STORE_ID`` is empty: nothing is pushed.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        store = setting_value(settings, "VECTOR_STORE_ID")
        options = cls.server_of(settings)
        return replace(options, store=store) if store else None

    @classmethod
    def server_of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options without a store: each domain of libraries names its own.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        value_of = partial(setting_value, settings)
        return cls(
            url=value_of("VECTOR_STORE_URL"),
            store="",
            wait=value_of("VECTOR_STORE_WAIT_SECONDS"),
            away=value_of("SINK_WAIT_SECONDS"),
            concurrency=value_of("VECTOR_STORE_CONCURRENCY"),
            ca_file=value_of("CA_FILE"),
            has_proxies=value_of("HTTPPROXY_ENABLED"),
        )


def vector_store_id_option(store: str, place: str) -> str:
    """Return the id of a vector store that ``place``, a file, has.

    Raises:
        SettingError: it can be none.
    """
    known = SETTINGS["VECTOR_STORE_ID"]
    if not re.fullmatch(known.form, store):
        raise SettingError(
            f"{place}: vector_store_id is {store[:200]!r}: expected {known.takes}; empty, one is"
            " made"
        )
    return store


@dataclass(frozen=True, slots=True)
class GithubTarget:
    """The places of a GitHub, github.com or an Enterprise Server. It has no secret."""

    api: str  #: URL of the REST API, without a slash at its end
    raw: str  #: URL below which files are read, likewise
    web: str  #: origin of the web pages, likewise

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the places from the settings.

        Raises:
            SettingError: naming the setting and what it takes.
        """
        names = ("GITHUB_API_URL", "GITHUB_RAW_URL", "GITHUB_WEB_URL")
        return cls(*(setting_value(settings, name) for name in names))


_SECRET: Final = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharepointOptions:
    """The access to SharePoint, and where its files are stored. No field has a default."""

    api: Literal["rest", "graph"]
    tenant: str  #: id or domain of the directory; empty: not set
    client_id: str  #: of the app registration; empty: not set
    certificate: Path | None  #: PEM or PFX file with certificate and private key
    certificate_password: str = field(repr=False)  #: empty: the file has none
    client_secret: str = field(repr=False)  #: empty: not set
    login_url: str  #: origin of the sign-in, https, without a slash at its end
    graph_url: str  #: base of Microsoft Graph, without a slash at its end
    ca_file: Path | None  #: authorities that are trusted beside those of the system
    page_size: int  #: items of an answer
    storage: Path  #: PERSISTENT_STORAGE_PATH
    reports_keep: int  #: archives of crawls of a domain; 0: all

    @classmethod
    def of(cls, settings: Mapping[str, Any], data_dir: Path) -> Self:
        """Read the options. Whether credentials are set is checked by ``required``.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        value_of = partial(setting_value, settings)
        return cls(
            api=value_of("SHAREPOINT_API"),
            tenant=value_of("SHAREPOINT_TENANT"),
            client_id=value_of("SHAREPOINT_CLIENT_ID").lower(),
            certificate=_certificate(value_of("SHAREPOINT_CERTIFICATE")),
            certificate_password=value_of("SHAREPOINT_CERTIFICATE_PASSWORD"),
            client_secret=_client_secret(value_of("SHAREPOINT_CLIENT_SECRET").strip()),
            login_url=value_of("SHAREPOINT_LOGIN_URL"),
            graph_url=_graph_url(value_of("GRAPH_URL")),
            ca_file=value_of("SHAREPOINT_CA_FILE"),
            page_size=value_of("SHAREPOINT_PAGE_SIZE"),
            storage=value_of("PERSISTENT_STORAGE_PATH") or data_dir / "library",
            reports_keep=value_of("LIBRARY_REPORTS_KEEP"),
        )

    def required(self) -> Self:
        """Return the options if they suffice to sign in.

        Raises:
            SettingError: naming the first setting that is missing, or superfluous.
        """
        if not self.tenant:
            raise SettingError(
                "SHAREPOINT_TENANT is empty: set it to the id or the domain of your directory,"
                " such as contoso.onmicrosoft.com"
            )
        if not self.client_id:
            raise SettingError(
                "SHAREPOINT_CLIENT_ID is empty: set it to the application (client) id of the app"
                " registration"
            )
        if self.certificate is None and not self.client_secret:
            also = ", or SHAREPOINT_CLIENT_SECRET to a client secret" if self.api == "graph" else ""
            raise SettingError(
                "SHAREPOINT_CERTIFICATE is empty: set it to a PEM or PFX file with the certificate"
                f" of the app registration and its private key{also}"
            )
        if self.certificate is not None and self.client_secret:
            raise SettingError(
                "SHAREPOINT_CLIENT_SECRET is set beside SHAREPOINT_CERTIFICATE: unset one of them"
            )
        return self


def _client_secret(text: str) -> str:
    if text and not _SECRET.fullmatch(text):
        raise SettingError(
            "SHAREPOINT_CLIENT_SECRET has spaces or other characters that no secret has: copy it"
            " anew"
        )
    if re.fullmatch(SETTINGS["SHAREPOINT_CLIENT_ID"].form, text):
        raise SettingError(
            "SHAREPOINT_CLIENT_SECRET has the form of an id: copy the value of the secret, not its"
            " id"
        )
    return text


def _certificate(text: str) -> Path | None:
    if not text:
        return None
    if "-----BEGIN" in text:
        raise SettingError(
            "SHAREPOINT_CERTIFICATE is a certificate: write it to a file, and set the path of that"
            " file"
        )
    path = whole_path(text)
    remedy = "expected a PEM or PFX file with a certificate and its private key"
    try:
        with path.open("rb") as file:
            file.read(1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SettingError(f"SHAREPOINT_CERTIFICATE is {text!r}: {why}; {remedy}") from error
    return path


def _graph_url(url: str) -> str:
    if not is_secure_or_loopback_url(url):
        raise SETTINGS["GRAPH_URL"].error(url)
    return url


def is_secure_or_loopback_url(url: str) -> bool:
    """Whether a token may be sent to a URL: by https, or by http within this machine.

    >>> is_secure_or_loopback_url("https://a.example"), is_secure_or_loopback_url("http://a.example")
    (True, False)
    >>> is_secure_or_loopback_url("http://127.0.0.1:8000/v1.0")
    True
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            return bool(host)
        if parts.scheme != "http":
            return False
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
