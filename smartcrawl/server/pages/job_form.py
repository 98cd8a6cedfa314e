"""The form of a job, made of the definition that the API takes: one field for each of its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import BaseModel

from smartcrawl.sources.jobs import JobConfig, JobDefinition, JobFilters, JobSchedule

#: The groups of the form, and the models that have their fields; "": the definition itself.
_GROUPS: Final = (
    ("", "Source"),
    ("schedule", "Times"),
    ("filters", "Addresses"),
    ("config", "How it is crawled"),
)
_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "": JobDefinition,
    "schedule": JobSchedule,
    "filters": JobFilters,
    "config": JobConfig,
}
_KINDS: Final = {"integer": "number", "array": "lines", "boolean": "choice"}
_YES_OR_NO: Final = (("true", "yes"), ("false", "no"))


@dataclass(frozen=True, slots=True)
class JobField:
    """One key of a definition as a field of the form."""

    group: str  #: key of the object that has it; "": the definition itself
    name: str
    title: str
    hint: str
    kind: str  #: text, number, lines or choice
    usual: str  #: its default, as it is typed; "": none
    is_required: bool
    choices: tuple[tuple[str, str], ...] = ()  #: values and their words

    def typed(self, value: Any) -> str:
        """Return a value of JSON as it is typed."""
        if value is None:
            return ""
        if isinstance(value, list):
            return "\n".join(map(str, value))
        return str(value).lower() if isinstance(value, bool) else str(value)

    def value(self, typed: str) -> Any:
        """Return what was typed as a value of JSON; what does not fit stays a text.

        None: the field is empty, so that its default counts.
        """
        text = typed.strip()
        if self.kind == "lines":
            return [line.strip() for line in text.split("\n") if line.strip()]
        if self.choices == _YES_OR_NO and text in ("true", "false"):
            return text == "true"
        if self.kind == "number" and text.isascii() and text.isdecimal():
            return int(text)
        return text or None


def _field(group: str, name: str, schema: Mapping[str, Any], *, is_required: bool) -> JobField:
    words = tuple((value, str(value).replace("_", " ")) for value in schema.get("enum", ()))
    types = [schema.get("type"), *(one.get("type") for one in schema.get("anyOf", ()))]
    kind = next((_KINDS[one] for one in types if one in _KINDS), "choice" if words else "text")
    field = JobField(
        group=group,
        name=name,
        title=schema["title"],
        hint=schema["description"],
        kind=kind,
        usual="",
        is_required=is_required,
        choices=_YES_OR_NO if "boolean" in types else words,
    )
    return replace(field, usual=field.typed(schema.get("default")))


def job_form_groups() -> list[tuple[str, list[JobField]]]:
    """Return the fields of the form by the titles of their groups."""
    found = []
    for group, title in _GROUPS:
        schema = _MODELS[group].model_json_schema()
        required = schema.get("required", ())
        fields = [
            _field(group, name, each, is_required=name in required)
            for name, each in schema["properties"].items()
            if name not in _MODELS
        ]
        found.append((title, fields))
    return found


#: All groups, and all fields of them.
JOB_FORM: Final[Sequence[tuple[str, list[JobField]]]] = tuple(job_form_groups())
JOB_FIELDS: Final[Sequence[JobField]] = tuple(field for _, fields in JOB_FORM for field in fields)


def job_of_form(form: Mapping[str, str], *, only: str | None = None) -> dict[str, Any]:
    """Return the definition that a form has; ``only``: the key of one group.

    >>> job_of_form({"name": "docs", "seed_urls": "https://a.example/", "max_depth": "3"})
    {'name': 'docs', 'seed_urls': ['https://a.example/'], 'config': {'max_depth': 3}}
    """
    body: dict[str, Any] = {}
    for field in JOB_FIELDS:
        value = field.value(form.get(field.name, ""))
        if only not in (None, field.group) or value is None or (value == [] and field.group):
            continue
        place = body.setdefault(field.group, {}) if field.group else body
        place[field.name] = value
    return body


def typed_job(job: Mapping[str, Any]) -> dict[str, str]:
    """Return a job of the API as its form shows it."""
    found = {}
    for field in JOB_FIELDS:
        part = job.get(field.group) if field.group else job
        found[field.name] = field.typed((part or {}).get(field.name))
    return found


def usual_job() -> dict[str, str]:
    """Return the form of a new job: the defaults."""
    return {field.name: field.usual for field in JOB_FIELDS}
