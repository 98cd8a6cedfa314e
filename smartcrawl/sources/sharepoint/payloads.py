"""The answers of SharePoint's REST API and of Microsoft Graph, parsed strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)
from pydantic.alias_generators import to_camel, to_pascal
from pydantic_core import from_json

from smartcrawl.sources.sharepoint.access import sharepoint_words

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_HTML: Final = re.compile(rb"\s*+(?:\xef\xbb\xbf)?+\s*+<(?:!doctype|html|\?xml|head|body)", re.I)
_MOST: Final = 2**53  #: numbers beyond are no sizes and no ids


class PayloadError(ValueError):
    """An answer of the API does not have the documented form; the message says where."""


def _guid(value: object) -> object:
    """Return a GUID in lower case, without braces."""
    if not isinstance(value, str):
        return value
    return value.replace("{", "").replace("}", "").lower()


def _number(value: object) -> object:
    """Return a number that came as text: REST writes Int64 so."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 17:
        return int(value)
    return value


def _microseconds(value: object) -> object:
    """Return a time with an offset as Unix microseconds."""
    if not isinstance(value, str):
        raise ValueError("it is not a time")  # pydantic reports this kind
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError("it is a time without an offset")
    return (found - _EPOCH) // _MICROSECOND


Guid = Annotated[
    str,
    BeforeValidator(_guid),
    StringConstraints(pattern=r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$"),
]
Whole = Annotated[int, BeforeValidator(_number), Field(ge=0, lt=_MOST)]
ItemId = Annotated[int, BeforeValidator(_number), Field(ge=1, lt=_MOST)]
Moment = Annotated[int, BeforeValidator(_microseconds), Field(ge=0, lt=_MOST)]
Name = Annotated[str, StringConstraints(min_length=1)]
ServerPath = Annotated[str, StringConstraints(pattern=r"^/")]


class Payload(BaseModel):
    """A part of an answer; what is not needed is not read."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


# REST


class _RestPayload(Payload):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", alias_generator=to_pascal)


class RestFolder(_RestPayload):
    """The root folder of a list."""

    server_relative_url: ServerPath


class RestList(_RestPayload):
    """The answer about a list or library."""

    id: Guid
    item_count: Whole  #: folders included
    root_folder: RestFolder


class RestCount(_RestPayload):
    """The answer about the number of items, asked for again."""

    item_count: Whole


class RestFile(_RestPayload):
    """The file of an item of a library."""

    length: Whole  #: bytes


class RestItem(_RestPayload):
    """One item of a list or library: a file, a folder or a list item."""

    id: ItemId
    unique_id: Guid
    file_leaf_ref: Name  #: name, not checked: it may be ``..`` or have NUL in it
    file_ref: ServerPath
    fs_obj_type: Annotated[int, BeforeValidator(_number), Field(ge=0, le=1, alias="FSObjType")]
    modified: Moment
    file: RestFile | None = None  #: files have it

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.fs_obj_type == 1


class RestField(_RestPayload):
    """One field of a list."""

    internal_name: Name
    entity_property_name: Name  #: its name in an item
    title: str  #: its display name
    type_as_string: Name
    hidden: bool
    read_only_field: bool
    lookup_field: str | None = None  #: of a lookup: the field that is shown
    rich_text: bool | None = None  #: of a text of several lines: it has markup


# Graph


class _GraphPayload(Payload):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", alias_generator=to_camel)


class GraphSharepointIds(_GraphPayload):
    """The ids by which SharePoint knows a thing."""

    list_item_id: ItemId | None = None
    list_item_unique_id: Guid | None = None


class GraphParent(_GraphPayload):
    """The folder of an item."""

    id: Name | None = None


class GraphDriveItem(_GraphPayload):
    """One item of a drive: a file, a folder, a notebook or the root; or a deleted one."""

    id: Name
    name: str | None = None  #: deleted items may have none; an empty one is no path on disk
    size: Whole | None = None
    last_modified_date_time: Moment | None = None
    parent_reference: GraphParent | None = None
    sharepoint_ids: GraphSharepointIds | None = None
    file: Mapping[str, Any] | None = None
    folder: Mapping[str, Any] | None = None
    package: Mapping[str, Any] | None = None  #: a notebook, which is a folder
    root: Mapping[str, Any] | None = None
    deleted: Mapping[str, Any] | None = None

    @property
    def is_folder(self) -> bool:
        """Whether other items can be in it."""
        return any(one is not None for one in (self.folder, self.package, self.root))


class GraphContentType(_GraphPayload):
    """The content type of an item of a list."""

    id: str | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it is that of folders, or one made of it."""
        return self.id is not None and self.id.lower().startswith("0x0120")


class GraphListItem(_GraphPayload):
    """One item of a list, with its fields, and the item of the drive where it has one."""

    sharepoint_ids: GraphSharepointIds
    web_url: Name
    last_modified_date_time: Moment
    fields: Mapping[str, Any]
    drive_item: GraphDriveItem | None = None
    content_type: GraphContentType | None = None

    @property
    def is_folder(self) -> bool:
        """Whether other items can be in it."""
        if self.content_type is not None and self.content_type.is_folder:
            return True
        return self.drive_item is not None and self.drive_item.is_folder


class GraphColumn(_GraphPayload):
    """One column of a list; its facet names its type."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", alias_generator=to_camel)
    name: Name
    display_name: str
    hidden: bool = False
    read_only: bool = False


class GraphPlace(_GraphPayload):
    """A site, a list or a drive."""

    id: Name
    web_url: Name
    display_name: str | None = None


# Parsing


class AnswerPage(NamedTuple):
    """One answer with several items, not parsed yet."""

    items: list[Any]
    next: str | None  #: URL of the next page
    delta: str | None  #: URL of the changes after this pass; Graph's last page has it


_Model = TypeVar("_Model", bound=Payload)


def sharepoint_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer.

    Raises:
        PayloadError: it is none; with the remedy.
    """
    if _HTML.match(body):
        raise PayloadError(
            "it is HTML instead of JSON: check the address, and whether a proxy or a "
            "sign-in page responds instead"
        )
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise PayloadError(f"it is not complete JSON ({sharepoint_words(str(error))})") from error
    if not isinstance(found, dict):
        raise PayloadError("it is not a JSON object")
    return found


def library_page(body: bytes) -> AnswerPage:
    """Parse an answer with several items.

    Raises:
        PayloadError: it does not have the documented form.
    """
    found = sharepoint_json(body)
    items = found.get("value")
    if not isinstance(items, list):
        raise PayloadError("it has no list named value")
    following = found.get("@odata.nextLink", found.get("odata.nextLink"))
    delta = found.get("@odata.deltaLink")
    if not isinstance(following, str | None) or not isinstance(delta, str | None):
        raise PayloadError("its link to the next page is not a text")
    return AnswerPage(items, following, delta)


def sharepoint_payload(model: type[_Model], value: object) -> _Model:
    """Parse one object of an answer.

    Raises:
        PayloadError: it does not have the documented form.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise PayloadError(f"{where}: {sharepoint_words(first['msg'])}") from error


def sharepoint_error_words(body: bytes) -> tuple[str, str]:
    """Return code and message of an error of either API; empty without any."""
    try:
        found = sharepoint_json(body)
    except PayloadError:
        return "", ""
    error = found.get("odata.error", found.get("error"))
    if isinstance(error, str):  # as the sign-in writes it
        return error, str(found.get("error_description", ""))
    if not isinstance(error, dict):
        return "", ""
    message = error.get("message")
    if isinstance(message, dict):
        message = message.get("value")
    return str(error.get("code", "")), message if isinstance(message, str) else ""


def sharepoint_json_text(value: object) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
