"""Queries of the API, read strictly, the cursors of lists, and answers kept for seconds.

Cursors: places in a list as opaque texts, signed and bound to the filters of the list (R2-39).

The secret is in the registry, so that a cursor of one server counts at any other one. What a
cursor says is no secret; its signature keeps clients from making cursors of their own, which a
later version would have to understand.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from functools import cache
from hashlib import sha256
from struct import Struct
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

from anyio import to_thread
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, ValidationInfo

from smartcrawl.model.redaction import redacted_line
from smartcrawl.registry.connection import Connection
from smartcrawl.server.errors import api_invalid_input
from smartcrawl.server.stores import Stores

_DIGITS: Final = re.compile(r"\d{1,18}", re.ASCII)
_DATE_TEXT: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME_TEXT: Final = "T[0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})"
_DATE: Final = re.compile(_DATE_TEXT)
_MOMENT: Final = re.compile(_DATE_TEXT + _TIME_TEXT)
#: A date, or a moment.
TIME_PATTERN: Final = f"^{_DATE_TEXT}({_TIME_TEXT})?$"
#: Encodes data, or a part of some, as the JSON of all answers: in ASCII, without spaces.
json_text: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_DAY: Final = timedelta(days=1)


class Query(BaseModel):
    """The parameters of a query; others are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False, frozen=True)


def _whole_number(value: Any, info: ValidationInfo) -> int:
    if not isinstance(value, str) or not _DIGITS.fullmatch(value):
        raise ValueError(f"{info.field_name} must be a whole number")
    return int(value)


#: A whole number in digits alone: int() would also take ``1_0`` and `` 1``.
WholeNumber = Annotated[int, BeforeValidator(_whole_number)]


_Q = TypeVar("_Q", bound=Query)


def read_api_query(model: type[_Q], request: Request) -> _Q:
    """Return the query of a request; FastAPI, which takes each field apart, needs 60 µs more.

    Raises:
        ApiError: a parameter is given twice.
        RequestValidationError: it is unknown, or no value of its type.
    """
    try:
        if not request.scope["query_string"]:
            default: _Q = _default_query(model)
            return default
        pairs = request.query_params.multi_items()
        _refuse_repeated(pairs)
        return model.model_validate(dict(pairs))
    except ValidationError as error:
        defects = [{**found, "loc": ("query", *found["loc"])} for found in error.errors()]
        raise RequestValidationError(defects) from None


@cache
def _default_query(model: type[_Q]) -> _Q:
    """Return the query of a request without parameters; it is frozen, so one serves them all."""
    return model()


def described_api_query(model: type[Query]) -> list[dict[str, Any]]:
    """Return the parameters of a query that ``read_api_query`` reads, for the OpenAPI."""
    return deepcopy(_described_query(model))  # each application has its own


@cache
def _described_query(model: type[Query]) -> list[dict[str, Any]]:
    schema = model.model_json_schema()
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        | {key: field[key] for key in ("description",) if key in field}
        for name, field in schema["properties"].items()
    ]


async def refuse_repeated_parameter(request: Request) -> None:
    """Refuse a query that names a parameter twice: which of them counts, is not for us to guess.

    Raises:
        ApiError: with its name.
    """
    _refuse_repeated(request.query_params.multi_items())


def _refuse_repeated(pairs: Sequence[tuple[str, str]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise api_invalid_input(repeated, f"{repeated} must be given once")


async def refuse_api_query(request: Request) -> None:
    """Refuse any parameter: the path takes none.

    Raises:
        ApiError: with the name of the first one.
    """
    for name in request.query_params:
        raise api_invalid_input(
            name, f"{redacted_line(name)} is not known: this path takes no parameters"
        )


def first_second_of_parameter(text: str, field: str) -> int:
    """Return the first second (Unix) of a date, or a moment.

    >>> [first_second_of_parameter(x, "from") for x in ("2024-01-20", "2024-01-20T10:00:00+01:00")]
    [1705708800, 1705741200]

    Raises:
        ApiError: the text is neither.
    """
    return _seconds(_moment(text, field)[0])


def last_second_of_parameter(text: str, field: str) -> int:
    """Return the last second (Unix) of a date, or a moment.

    >>> [last_second_of_parameter(x, "to") for x in ("1970-01-01", "1970-01-01T00:01Z")]
    [86399, 60]

    Raises:
        ApiError: the text is neither.
    """
    moment, is_date = _moment(text, field)
    return _seconds(moment) + (int(_DAY.total_seconds()) - 1 if is_date else 0)


def _seconds(moment: datetime) -> int:
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())


def _moment(text: str, field: str) -> tuple[datetime, bool]:
    """Return a moment, and whether it stands for a whole day."""
    try:
        if _DATE.fullmatch(text):
            day = date.fromisoformat(text)
            return datetime(day.year, day.month, day.day, tzinfo=UTC), True
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text), False
    except ValueError:
        pass  # such as the 30th of February
    raise api_invalid_input(
        field, f"{field} must be a date such as 2024-01-20, or a time such as 2024-01-20T10:00:00Z"
    )


def json_response(data: Mapping[str, Any]) -> Response:
    """Return data as JSON, in ASCII; FastAPI's encoder takes ten times as long for many rows."""
    return json_text_response(json_text(data))


def json_text_response(text: str) -> Response:
    """Return an answer whose JSON is made of ``sharepoint_json_text``."""
    return Response(text, media_type="application/json")


_T = TypeVar("_T")


class KeptAnswers(Generic[_T]):
    """Answers by key, each computed in a thread, once for all who wait for it.

    ``seconds``: the age up to which an answer counts; ``most``: how many are kept.
    """

    def __init__(self, seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[float, _T]] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Task[_T]] = {}

    async def get(self, key: Hashable, work: Callable[[], _T]) -> _T:
        """Return the answer of ``key``; ``work`` computes it, unless a recent one is kept."""
        found = self._kept.get(key)
        if found is not None and 0 <= self._clock() - found[0] < self._seconds:
            return found[1]
        task = self._pending.get(key)
        if task is None:
            task = asyncio.ensure_future(self._computed(key, work))
            self._pending[key] = task
            task.add_done_callback(lambda _: self._pending.pop(key, None))
        return await asyncio.shield(task)  # a client that goes away ends no other one's answer

    async def _computed(self, key: Hashable, work: Callable[[], _T]) -> _T:
        at = self._clock()
        answer = await to_thread.run_sync(work)
        self._kept[key] = at, answer
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return answer


_NAME: Final = "cursor secret"
_KNOWN: Final = "SELECT value FROM choice WHERE name = ?"
#: If several servers start at once, one chooses, and the others read its choice.
_CHOSEN: Final = """
INSERT INTO choice (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = choice.value RETURNING value
"""
_PLACE: Final = Struct(">qq")
_SIGNATURE: Final = 16  #: bytes
CURSOR_PATTERN: Final = "^[A-Za-z0-9_-]{43}$"
_CURSOR: Final = re.compile(CURSOR_PATTERN.strip("^$"), re.ASCII)


class Place(NamedTuple):
    """The last row of a page: the next page begins below it."""

    at: int  #: Unix seconds
    no: int


class Cursors:
    """Writes and reads cursors with the secret of the registry."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._secret: bytes | None = None

    async def prepare(self) -> None:
        """Read the secret, or choose it; later calls do nothing."""
        if self._secret is None:
            self._secret = await to_thread.run_sync(self._stored_secret)

    def write(self, place: Place, filters: Sequence[object]) -> str:
        """Return the cursor of a place in the list that has these filters."""
        packed = _PLACE.pack(*place)
        return urlsafe_b64encode(packed + self._signature(packed, filters)).decode().rstrip("=")

    def read(self, cursor: str, filters: Sequence[object]) -> Place:
        """Return the place of a cursor.

        Raises:
            ApiError: it is none of ours, or of a list with other filters.
        """
        raw = urlsafe_b64decode(f"{cursor}=") if _CURSOR.fullmatch(cursor) else b""
        packed, signature = raw[: _PLACE.size], raw[_PLACE.size :]
        if len(packed) != _PLACE.size or not hmac.compare_digest(
            signature, self._signature(packed, filters)
        ):
            raise api_invalid_input(
                "cursor", "cursor must be the next_cursor of a page with the same filters"
            )
        return Place(*_PLACE.unpack(packed))

    def _signature(self, packed: bytes, filters: Sequence[object]) -> bytes:
        if self._secret is None:
            raise RuntimeError("prepare() was not called")
        text = packed + repr(tuple(filters)).encode()
        return hmac.digest(self._secret, text, sha256)[:_SIGNATURE]

    def _stored_secret(self) -> bytes:
        known = self._stores.read(_stored)
        return bytes.fromhex(known or self._stores.write(_chosen))


def _stored(connection: Connection) -> str | None:
    value: str | None = connection.execute(_KNOWN, (_NAME,)).get
    return value


def _chosen(connection: Connection) -> str:
    value = secrets.token_hex(32)
    return str(connection.execute(_CHOSEN, (_NAME, value)).get)


NUMBER_PATTERN: Final = "^[1-9][0-9]{0,17}$"
_NUMBER: Final = re.compile(NUMBER_PATTERN.strip("^$"), re.ASCII)


def number_of_path(text: str, field: str) -> int:
    """Return a number that a path names, such as that of a run.

    >>> number_of_path("17", "run")
    17

    Raises:
        ApiError: it is none.
    """
    if not _NUMBER.fullmatch(text):
        raise api_invalid_input(field, f"{field} must be a whole number of at least 1")
    return int(text)
