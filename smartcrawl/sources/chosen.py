"""Keys of a source that were chosen when it was crawled by its address or its root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from smartcrawl.model.choice_arguments import CHOICE_ARGUMENTS
from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.program import program_argument_label
from smartcrawl.model.setting_values import MOST_NUMBER, given_number
from smartcrawl.sources.base import Source
from smartcrawl.sources.declared import declared_source_problems
from smartcrawl.sources.kinds import SITE
from smartcrawl.sources.request_keys import REQUEST_KEYS, SourceRequest

_Made = TypeVar("_Made", bound=Source)


def chosen_keys(arguments: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the keys that a crawl's arguments choose, as a table of sources.toml has them.

    An empty argument takes back what was chosen before.

    Raises:
        SourceError: a number is wrong.
        SettingError: a key of requests is wrong.
    """
    found: dict[str, Any] = {}
    for name, argument in CHOICE_ARGUMENTS.items():
        key = argument.site if kind == SITE.name else argument.listed
        if name not in arguments or key is None:
            continue
        given = str(arguments[name])
        lines = [line for line in given.split("\n") if line]
        if key in REQUEST_KEYS:
            request = (
                SourceRequest.of_words({}, lines)
                if argument.repeats
                else SourceRequest.of_words({key: given} if given else {})
            )
            found[key] = request.table.get(key)
        elif argument.repeats:
            found[key] = lines
        else:
            number = given_number(given or "0")
            if number is None or number > MOST_NUMBER:
                raise SourceError(
                    f"{program_argument_label(name)} is {given!r}: expected a whole number, 0 for"
                    " no limit"
                )
            found[key] = number
    return found


def source_with_keys(source: _Made, keys: Mapping[str, Any]) -> _Made:
    """Return an ad-hoc source with keys of a table; an empty one takes the key back.

    Raises:
        SourceError: a value is wrong; with the argument that gave it.
    """
    if not keys:
        return source
    own = {key: value for key, value in keys.items() if key in REQUEST_KEYS}
    rest = {key: value for key, value in keys.items() if key not in REQUEST_KEYS}
    values = {key: getattr(source, key) for key in source.model_fields_set if key != "request"}
    labels = {
        key: program_argument_label(name)
        for name, argument in CHOICE_ARGUMENTS.items()
        for key in (argument.site, argument.listed)
        if key is not None
    } | {"seeds": program_argument_label("url")}
    made, problems = declared_source_problems(type(source), {**values, **rest}, labels)
    if made is None:
        raise SourceError("\n".join(problems))
    request = {**source.request.table, **own}
    given = {key: value for key, value in request.items() if value not in (None, "", {})}
    return made.model_copy(update={"request": SourceRequest.declared(given)})
