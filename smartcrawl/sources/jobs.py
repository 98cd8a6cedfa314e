"""The definition of a job: a source, the settings of its runs, and its schedule (R2-20 to R2-25).

No message repeats a seed or another text of the request, because it may contain a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from typing import Annotated, Any, Final, Literal, Self

import can_ada
from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.urls import MAX_URL_LENGTH, is_signed_url, request_url
from smartcrawl.rules.http import MAX_REDIRECTS, MOST_REDIRECTS
from smartcrawl.sources.base import Source
from smartcrawl.sources.fields import (
    MAX_PATTERNS,
    NAME,
    NAME_RULE,
    Between,
    JsonInteger,
    Patterns,
    declared_pattern_size,
)
from smartcrawl.sources.site import SiteSource

INVALID_INPUT: Final = "INVALID_INPUT"
INVALID_CONFIG: Final = "INVALID_CONFIG"
INVALID_URL: Final = "INVALID_URL"
NOT_FOUND: Final = "NOT_FOUND"
CONFLICT: Final = "CONFLICT"
#: The message of each code (R2-10, R2-11).
_MESSAGES: Final = {
    INVALID_INPUT: "Request validation failed",
    INVALID_CONFIG: "Crawl configuration is invalid",
    INVALID_URL: "URL format is invalid",
    NOT_FOUND: "Crawl job not found",
    CONFLICT: "The job is in another state",
}
#: Parts of a definition whose errors are INVALID_CONFIG.
_CONFIGURES: Final = ("config", "filters", "schedule")
_OBJECTS: Final = ("model_type", "model_attributes_type", "dict_type")
_SUBJECT: Final = re.compile("(Input|String|List) should")
_LONGEST: Final = 255  #: characters of an unknown key that is repeated
#: Keys of sources that could give away pages or secrets, or turn the crawler into a tool.
_IN_FILES: Final = frozenset(
    {"auth", "visibility", "hook", "headers", "proxy", "obey_robots", "data_hosts", "data_posts"}
)


class JobError(SmartcrawlError):
    """A request about jobs that is refused; ``message`` None: the one of the code."""

    def __init__(
        self, code: str, *, field: str | None = None, reason: str, message: str | None = None
    ) -> None:
        self.code = code
        self.message = _MESSAGES[code] if message is None else message
        self.field = field
        self.reason = reason
        super().__init__(f"{self.message}: {reason}")


def job_error_of_defect(defect: Mapping[str, Any], path: tuple[str | int, ...]) -> JobError:
    """Return an error of pydantic about a request; no text of the request is repeated.

    ``path``: of the value in the request. Its key decides the code (R2-10, R2-11).
    """
    kind = defect["type"]
    code = INVALID_CONFIG if path and path[0] in _CONFIGURES else INVALID_INPUT
    names = [part for part in path if isinstance(part, str)]
    if kind == "extra_forbidden":
        key = names.pop()
        what = f"a key of {names[-1] if names else 'the request'}"
        if NAME.fullmatch(key) and len(key) <= _LONGEST:
            names.append(key)
            what = key
        reason = f"{what} is not known: /openapi.json lists what is"
        if key in _IN_FILES:
            reason = f"{key} stands in files only: declare the source in sources.toml"
    elif kind == "missing":
        reason = f"{_place(path) if path else 'a JSON body'} is missing"
    else:
        reason = _reason(defect, path)
        if names[-1:] == ["url"] or (path[:1] == ("seed_urls",) and len(path) > 1):
            code = INVALID_URL
    return JobError(code, field=names[-1] if names else None, reason=reason)


def _reason(defect: Mapping[str, Any], path: tuple[str | int, ...]) -> str:
    """Return the sentence about a value; a rule of ours may have it whole."""
    text = str(defect["msg"])
    if defect["type"] == "value_error":
        text = str(defect["ctx"]["error"])
    elif defect["type"] in _OBJECTS:
        text = "must be a JSON object"
    text = _SUBJECT.sub("must", text)
    return f"{_place(path)} {text}" if text.startswith("must") else text


def _place(path: tuple[str | int, ...]) -> str:
    """Return the place of a value: its key, or the whole place in a list.

    >>> [_place(path) for path in ((), ("config", "max_depth"), ("urls", 3, "url"))]
    ['the body', 'max_depth', 'urls[3].url']
    """
    lists = [place - 1 for place, part in enumerate(path) if isinstance(part, int)]
    first = lists[0] if lists else max(0, len(path) - 1)
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path[first:])
    return "".join(parts).removeprefix(".") or "the body"


MAX_LENGTH: Final = 100  #: characters (R2-58)
LEAST_MINUTES: Final = 5  #: between two fires
_FIELDS: Final = 5
_DAY: Final = 1_440  #: minutes
#: Weekdays and leap years repeat after so many years.
_CYCLE: Final = timedelta(days=28 * 366)
_CHARACTERS: Final = re.compile(r"[0-9A-Za-z*/,#\- \t]*")
_TAKES: Final = "five fields: minute, hour, day of month, month, day of week, as in 0 3 * * 1-5"


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The fire times of one checked cron expression. Times are Unix seconds."""

    text: str

    @classmethod
    def parsed(cls, text: str, now: int) -> Self:
        """Return the schedule of an expression.

        Raises:
            ValueError: it has not five fields, never fires after ``now``, or fires too often.
        """
        if len(text) > MAX_LENGTH:
            raise ValueError(f"cron must have at most {MAX_LENGTH} characters, not {len(text):,}")
        if not _CHARACTERS.fullmatch(text):
            raise ValueError(f"cron must consist of {_TAKES}")
        fields = text.split()
        if len(fields) != _FIELDS:
            raise ValueError(f"cron must have {_TAKES}; it has {len(fields)} fields")
        schedule = cls(" ".join(fields))
        try:
            parts = CronSim(schedule.text, _moment(now))
            next(parts)
        except CronSimError as error:
            raise ValueError(f"cron must have {_TAKES} ({error})") from error
        except StopIteration:
            raise ValueError("cron never fires: no day of any month matches it") from None
        minutes = sorted(60 * hour + minute for hour in parts.hours for minute in parts.minutes)
        if schedule._least_gap(minutes) < LEAST_MINUTES:
            raise ValueError(
                f"cron must leave at least {LEAST_MINUTES} minutes between two runs,"
                " as */5 * * * * does"
            )
        return schedule

    def next_fire(self, after: int) -> int:
        """Return the first fire time later than ``after``.

        Raises:
            ValueError: there is none, or this version refuses the expression.

        >>> CronSchedule("0 0 * * *").next_fire(1_705_744_800)  # 2024-01-20T10:00:00Z
        1705795200
        """
        try:
            return int(next(CronSim(self.text, _moment(after))).timestamp())
        except (CronSimError, StopIteration):
            raise ValueError(f"cron must have {_TAKES}, and fire") from None

    def fires(self, now: int, most: int) -> list[int]:
        """Return the fire times after ``now``, ``most`` of them, or fewer where no more come.

        >>> CronSchedule("0 0 * * *").fires(1_705_744_800, 2)
        [1705795200, 1705881600]
        """
        found: list[int] = []
        for _ in range(most):
            try:
                found.append(self.next_fire(found[-1] if found else now))
            except ValueError:
                break
        return found

    def fire_after(self, due_at: int, now: int) -> int:
        """Return the fire time that follows a run for ``due_at`` that begins ``now``.

        Fires missed between the two are skipped: the run stands for all of them. A clock that was
        put back never leads to a time at or before ``due_at``.
        """
        return self.next_fire(max(due_at, now))

    def _least_gap(self, minutes: list[int]) -> int:
        """Return the least distance of two fires, in minutes.

        ``minutes``: those of a day at which it fires, sorted.
        """
        within = [after - before for before, after in pairwise(minutes)]
        over_night = _DAY - minutes[-1] + minutes[0]
        if over_night < LEAST_MINUTES and self._fires_on_two_days_in_a_row():
            within.append(over_night)
        return min(within, default=_DAY)

    def _fires_on_two_days_in_a_row(self) -> bool:
        start = datetime(2000, 1, 1, tzinfo=UTC)
        days = CronSim(f"0 0 {' '.join(self.text.split()[2:])}", start)
        within = takewhile(lambda day: day - start < _CYCLE, days)
        return any(after - before == timedelta(days=1) for before, after in pairwise(within))


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


MAX_NAME: Final = 255  #: characters (R2-58)
MAX_SEEDS: Final = 1_000
MAX_USER_AGENT: Final = 256
MAX_PATTERN_STEPS: Final = 50_000  #: of all patterns of a job together, once they are compiled
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HEADER_TEXT: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


def _plain(text: str) -> str:
    """Return a text as it is.

    Raises:
        ValueError: it contains a control character, which PostgreSQL or HTTP would refuse.
    """
    if _CONTROL.search(text):
        raise ValueError("must not contain control characters")
    return text


def _name(text: str) -> str:
    """Return the name of a job as it is.

    Raises:
        ValueError: it is no name of a source.
    """
    if not NAME.fullmatch(text) or len(text) > MAX_NAME:
        raise ValueError(f"must consist of 1 to {MAX_NAME} {NAME_RULE}")
    return text


def _user_agent(text: str) -> str:
    """Return a User-Agent as it is.

    Raises:
        ValueError: it cannot be the value of a header.
    """
    if not _HEADER_TEXT.fullmatch(text) or len(text) > MAX_USER_AGENT:
        raise ValueError(f"must consist of 1 to {MAX_USER_AGENT} printable ASCII characters")
    return text


def declared_job_address(text: str) -> str:
    """Return the request URL of an address that came over the API.

    Raises:
        ValueError: it is no web address, or contains a secret; it is not repeated.
    """
    _plain(text)
    if len(text) > MAX_URL_LENGTH:
        raise ValueError(f"must be at most {MAX_URL_LENGTH} characters long")
    url = request_url(text)
    if url is None:
        raise ValueError("must be an http or https address, as in https://docs.example.com/")
    parsed = can_ada.parse(text)
    if parsed.username or parsed.password:
        raise ValueError("must not contain a user name or password")
    if is_signed_url(text) or is_signed_url(url):
        raise ValueError("must not contain an access token or a signature")
    return url


_Text = Annotated[str, AfterValidator(_plain)]
#: The example of R2-20.
EXAMPLE: Final[dict[str, Any]] = {
    "name": "daily-news-crawl",
    "seed_urls": ["https://cnn.com", "https://bbc.com", "https://reuters.com"],
    "config": {"max_depth": 5, "max_pages": 100_000, "user_agent": "SearchBot/1.0"},
    "filters": {"allowed_domains": ["cnn.com", "bbc.com", "reuters.com"]},
    "schedule": {"type": "recurring", "cron": "0 0 * * *"},
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class JobConfig(_Part):
    """The configuration of the runs of a job (R2-21)."""

    max_depth: Annotated[JsonInteger, Between(1, 10)] = Field(
        default=5, title="Depth", description="Links from a seed to a page, at most"
    )
    max_pages: Annotated[JsonInteger, Between(1, 1_000_000_000)] = Field(
        default=100_000, title="Pages", description="Pages that a run visits, at most"
    )
    crawl_delay_ms: Annotated[JsonInteger, Between(0, 3_600_000)] = Field(
        default=1_000,
        title="Delay in ms",
        description="Milliseconds between two requests to a host",
    )
    respect_robots_txt: bool = Field(
        default=True,
        title="Obey robots.txt",
        description="Whether addresses that robots.txt disallows are left out",
    )
    follow_redirects: bool = Field(
        default=True, title="Follow redirects", description="Whether redirects are followed at all"
    )
    max_redirects: Annotated[JsonInteger, Between(0, MOST_REDIRECTS)] = Field(
        default=MAX_REDIRECTS,
        title="Redirects",
        description="Redirects that are followed from one address, at most",
    )
    timeout_seconds: Annotated[JsonInteger, Between(1, 3_600)] = Field(
        default=30, title="Time-out in s", description="Seconds within which an answer has to come"
    )
    user_agent: Annotated[str, AfterValidator(_user_agent)] = Field(
        default="SearchBot/1.0",
        title="User-Agent",
        description="The name by which servers and robots.txt know the crawler",
        json_schema_extra={"pattern": f"^{_HEADER_TEXT.pattern}$", "maxLength": MAX_USER_AGENT},
    )


class JobFilters(_Part):
    """The rules for the addresses of a job (R2-22)."""

    allowed_domains: list[_Text] = Field(
        default=[],
        max_length=MAX_SEEDS,
        title="Domains",
        description="Hosts and domains whose pages are crawled; none: the hosts of the seeds",
    )
    url_patterns: list[_Text] = Field(
        default=[],
        max_length=MAX_PATTERNS,
        title="Only these addresses",
        description="Regular expressions, one of which an address has to match; none: all match",
    )
    excluded_patterns: list[_Text] = Field(
        default=[],
        max_length=MAX_PATTERNS,
        title="Not these addresses",
        description="Regular expressions of addresses that are left out",
    )


class JobSchedule(_Part):
    """The schedule of a job (R2-23)."""

    type: Literal["one_time", "recurring"] = Field(
        default="one_time",
        title="Runs",
        description="Whether it is crawled once, at once, or again and again at the times of cron",
    )
    cron: str | None = Field(
        default=None,
        title="Cron",
        description="Minute, hour, day of month, month and day of week in UTC, as in 0 3 * * 1-5",
        json_schema_extra={"maxLength": MAX_LENGTH},
    )

    @classmethod
    def stored(cls, text: str) -> Self:
        """Return the schedule of a stored definition as it is, whichever version stored it."""
        given = json.loads(text).get("schedule")
        return cls.model_construct(**given if isinstance(given, dict) else {})

    @property
    def recurring(self) -> bool:
        """Whether the job runs again and again."""
        return self.type == "recurring"


class JobDefinition(_Part):
    """One checked definition of a job."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    name: Annotated[str, AfterValidator(_name)] = Field(
        title="Name",
        description="What the source is called in searches, reports and keys; its pages belong to"
        " the name",
        json_schema_extra={"pattern": f"^{NAME.pattern}$", "maxLength": MAX_NAME},
    )
    seed_urls: list[Annotated[str, AfterValidator(declared_job_address)]] = Field(
        min_length=1,
        max_length=MAX_SEEDS,
        title="Seeds",
        description="Addresses with which each run begins; their hosts are the scope",
    )
    config: JobConfig = JobConfig()
    filters: JobFilters = JobFilters()
    schedule: JobSchedule = JobSchedule()

    @classmethod
    def checked(cls, body: object, now: int) -> Self:
        """Return the definition in the body of a request.

        Raises:
            JobError: with the code, the field and the reason of the first problem.
        """
        try:
            definition = cls.model_validate(body)
        except ValidationError as error:
            found = error.errors()[0]
            raise job_error_of_defect(found, found["loc"]) from None  # it repeats the request
        definition.check(now)
        return definition

    def check(self, now: int) -> None:
        """Refuse what only all parts together show, or the time.

        Raises:
            JobError: with the field and the reason.
        """
        self.cron(now)
        self.source()

    @classmethod
    def stored(cls, name: str, text: str) -> Self:
        """Return a stored definition, as JSON without its name.

        One that another version stored, and that the rules of this one refuse, is returned as it
        is: its job can be listed, replaced and deleted. A crawl reads it strictly.
        """
        values = json.loads(text) | {"name": name}
        try:
            return cls.model_validate(values)
        except ValidationError:
            for part, model in _MODELS.items():
                if part is not None:
                    given = values.get(part)
                    values[part] = model.model_construct(**given if isinstance(given, dict) else {})
            return cls.model_construct(**values)

    def shown(self) -> dict[str, Any]:
        """Return seeds, configuration and filters, with ``…`` in place of secrets."""
        return {part: _with_texts(value, redacted_text) for part, value in self._parts().items()}

    def with_secrets_of(self, stored: Self) -> Self:
        """Return the definition with the secrets of the stored one where ``shown`` has ``…``.

        So a client may send back what it read.
        """
        secrets: dict[str, str] = {}

        def note(text: str) -> str:
            shown = redacted_text(text)
            if shown != text:
                secrets.update({shown: text, request_url(shown) or shown: text})
            return text

        _with_texts(stored._parts(), note)
        if not secrets:
            return self
        kept = _with_texts(self._parts(), lambda text: secrets.get(text, text))
        filters = self.filters.model_copy(update=kept["filters"])
        return self.model_copy(update={"seed_urls": kept["seed_urls"], "filters": filters})

    def _parts(self) -> dict[str, Any]:
        return self.model_dump(include={"seed_urls", "config", "filters"}, warnings=False)

    def cron(self, now: int) -> CronSchedule | None:
        """Return the times of a recurring job; None: it runs once.

        Raises:
            JobError: type and cron do not fit, or the expression is refused.
        """
        text = self.schedule.cron
        if not self.schedule.recurring:
            if text is not None:
                raise _wrong("cron", "cron must be absent, or type must be recurring")
            return None
        if text is None:
            raise _wrong("cron", "cron is missing: a recurring job needs one, as in 0 3 * * *")
        try:
            return CronSchedule.parsed(text, now)
        except ValueError as error:
            raise _wrong("cron", str(error)) from error

    def source(self) -> Source:
        """Return the source that the job is.

        Its seeds are in its scope also if ``url_patterns`` match none of them, as those of the
        example of R2-20: else the run would have no start.

        Raises:
            JobError: a filter is refused, or excludes a seed.
        """
        self._check_patterns()
        try:
            return SiteSource(
                name=self.name,
                seeds=tuple(self.seed_urls),
                allowed_domains=tuple(self.filters.allowed_domains),
                url_patterns=self._patterns_with_seeds(),
                excluded_patterns=tuple(self.filters.excluded_patterns),
                max_depth=self.config.max_depth,
                max_pages=self.config.max_pages,
                of_job=True,
            )
        except ValidationError as error:
            found = error.errors()[0]
            if found["loc"]:
                field = str(found["loc"][0])
                raise _wrong(field, f"{field} {found['ctx']['error']}") from error
            raise _wrong("filters", f"seed_urls {found['ctx']['error']}") from error

    def _check_patterns(self) -> None:
        """Refuse patterns at the first that is wrong, or with which they become too large.

        Raises:
            JobError: with the field.
        """
        steps = 0
        for field in ("url_patterns", "excluded_patterns"):
            for place, pattern in enumerate(getattr(self.filters, field)):
                try:
                    steps += declared_pattern_size(pattern, small=True)
                except ValueError as error:
                    raise _wrong(field, f"{field} {error}") from error
                if steps > MAX_PATTERN_STEPS:
                    raise _wrong(
                        field,
                        f"{field}[{place}] is too much: all patterns together compile to more than"
                        f" {MAX_PATTERN_STEPS:,} steps; repeat less, and classes of fewer letters",
                    )

    def _patterns_with_seeds(self) -> Patterns:
        """Return ``url_patterns`` and one for each seed that none of them matches."""
        given = tuple(self.filters.url_patterns)
        if not given:
            return given
        seeds = tuple(f"^{re.escape(url)}$" for url in dict.fromkeys(self.seed_urls))
        if len(given) + len(seeds) > MAX_PATTERNS:
            raise _wrong(
                "url_patterns",
                f"url_patterns and seed_urls must be at most {MAX_PATTERNS} together",
            )
        return (*given, *seeds)

    def run_settings(self) -> Mapping[str, float | bool | str]:
        """Return the settings of the job's runs; nothing else of a run can be set."""
        return {
            "DOWNLOAD_DELAY": self.config.crawl_delay_ms / 1_000,
            "DOWNLOAD_TIMEOUT": self.config.timeout_seconds,
            "REDIRECT_MAX_TIMES": self.config.max_redirects if self.config.follow_redirects else 0,
            "ROBOTSTXT_OBEY": self.config.respect_robots_txt,
            "USER_AGENT": self.config.user_agent,
        }


def _with_texts(value: Any, changed: Callable[[str], str]) -> Any:
    """Return a value of JSON whose texts are ``changed``, those of keys not."""
    if isinstance(value, str):
        return changed(value)
    if isinstance(value, list):
        return [_with_texts(each, changed) for each in value]
    if isinstance(value, dict):
        return {key: _with_texts(each, changed) for key, each in value.items()}
    return value


def _wrong(field: str, reason: str) -> JobError:
    return JobError(INVALID_CONFIG, field=field, reason=reason)


_MODELS: Final[Mapping[str | None, type[BaseModel]]] = {
    None: JobDefinition,
    "config": JobConfig,
    "filters": JobFilters,
    "schedule": JobSchedule,
}
