"""Checks before the first write: the server, the rights of the user, and the indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Self

from smartcrawl.index.elasticsearch import library
from smartcrawl.index.elasticsearch.documents import (
    FORMER_VERSION,
    LIVING,
    MAPPING_VERSION,
    index_mappings,
    index_settings,
    index_template,
    mapped_embedder,
    mapping_differences,
)
from smartcrawl.index.elasticsearch.faults import (
    REBUILD,
    index_answer,
    index_forbidden,
    index_refusal,
)
from smartcrawl.model.documents import EmbedderKey
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.option_groups import ElasticsearchTarget
from smartcrawl.model.patience import Patience

_MAJORS: Final = ("8", "9")
_WITH_VECTORS: Final = (8, 13)  #: the first version that searches vectors of nested chunks
_SHOWN: Final = 3  #: differences that a message lists
_REGISTRY: Final = "registry"  #: name in the mapping's ``_meta`` of the registry that made an index
CLUSTER_RIGHTS: Final = ("monitor", "manage_index_templates")
INDEX_RIGHTS: Final = ("read", "write", "manage")
_BLOCKS: Final = ("read_only", "read_only_allow_delete", "write", "read", "metadata")


class IndexNames(NamedTuple):
    """Names of this program's indices in an Elasticsearch."""

    search: str  #: alias without tombstones
    write: str  #: alias of the index that is written
    meta: str
    template: str
    pattern: str  #: pattern of the indices' names

    @classmethod
    def of(cls, prefix: str) -> Self:
        """Return the names under a prefix."""
        pages = f"{prefix}-pages"
        return cls(prefix, f"{prefix}-write", f"{prefix}-meta", pages, f"{pages}-*")

    def numbered(self, place: int) -> str:
        """Return the name of an index by its number.

        >>> IndexNames.of("docs").numbered(1)
        'docs-pages-000001'
        """
        return f"{self.template}-{place:06}"

    def number(self, name: str) -> int | None:
        """Return the number of an index by its name; None unless the name is of our own form.

        >>> names = IndexNames.of("docs")
        >>> names.number("docs-pages-000012"), names.number("docs-pages-1000000")
        (12, 1000000)
        >>> names.number("docs-pages-backup"), names.number("docs-pages-12")
        (None, None)
        """
        digits = name.removeprefix(f"{self.template}-")
        if not (digits.isascii() and digits.isdecimal()):
            return None
        return int(digits) if name == self.numbered(int(digits)) else None


class Index(NamedTuple):
    """An index of pages."""

    name: str
    uuid: str
    embedder: EmbedderKey | None = None  #: whose vectors it has; None: it has no field for them
    #: Id of the registry that made it; None: another program did, or a former version of this one.
    registry: str | None = None
    former: bool = False  #: made by a former version; it is searched until it is written anew

    @classmethod
    def of(cls, name: str, about: Mapping[str, Any]) -> Self:
        """Read an index from the server's answer about it."""
        mappings = about["mappings"]
        meta = mappings.get("_meta", {})
        uuid = about["settings"]["index"]["uuid"]
        is_former = meta.get("version") == FORMER_VERSION
        return cls(name, uuid, mapped_embedder(mappings), meta.get(_REGISTRY), is_former)


def connect_elasticsearch(target: ElasticsearchTarget, timeout: float) -> library.Elasticsearch:
    """Return a client, without a request yet. Patience repeats requests, not the client.

    ``timeout`` is how long one answer may take, in seconds.
    """
    options: dict[str, Any] = {}
    if target.ca_certs is not None:
        options["ca_certs"] = str(target.ca_certs)
    if target.user:
        options["basic_auth"] = (target.user, target.password)
    if target.api_key:
        options["api_key"] = target.api_key
    return library.Elasticsearch(
        target.url,
        **options,
        request_timeout=timeout,
        max_retries=0,
        retry_on_timeout=False,
    )


def check_elasticsearch(client: library.Elasticsearch, target: ElasticsearchTarget) -> None:
    """Check the version of the server, and the rights of the user.

    Raises:
        SinkError: the server does not answer, is no Elasticsearch 8 or 9, does not know the user,
            or the user lacks a right.
    """
    try:
        version = str(client.info()["version"]["number"])
        if version.partition(".")[0] not in _MAJORS:
            raise SinkError(
                f"{target.url} is an Elasticsearch {version}: this program talks to 8.x and 9.x"
            )
        lacking = sorted(_lacking(client, target.prefix))
    except (library.ApiError, library.TransportError) as error:
        raise index_refusal(error, target.url) from error
    if lacking:
        raise index_forbidden(target.url, f"it lacks {', '.join(lacking)}")


def _lacking(client: library.Elasticsearch, prefix: str) -> Iterator[str]:
    """Yield the rights that the user lacks; none where security is switched off."""
    # Without security there is no such interface, and each version says so in another way.
    answer = client.options(ignore_status=(400, 405, 410, 500)).security.has_privileges(
        cluster=CLUSTER_RIGHTS,
        index=[{"names": [prefix, f"{prefix}-*"], "privileges": INDEX_RIGHTS}],
    )
    if answer.meta.status != 200:
        return
    for right, is_given in answer["cluster"].items():
        if not is_given:
            yield f"{right} of the cluster"
    for name, rights in answer["index"].items():
        for right, is_given in rights.items():
            if not is_given:
                yield f"{right} of {name}"


class Indices:
    """The indices of pages under one prefix.

    ``registry`` is the id of the registry that writes them. Only indices with a name of our own
    form and this id in their mapping are deleted: other indices under the prefix are of others.
    """

    def __init__(
        self,
        client: library.Elasticsearch,
        names: IndexNames,
        name: str,
        patience: Patience,
        registry: str = "",
    ) -> None:
        self._client = client
        self._names = names
        self._name = name
        self._patience = patience
        self._registry = registry

    def written(self) -> Index | None:
        """Return the index behind the write alias; None where there is none.

        Raises:
            SinkError: the alias leads to several, or its name is that of an index.
        """
        found = self._found(self._names.write)
        if len(found) > 1:
            raise SinkError(
                f"{self._name}: the alias {self._names.write} leads to {', '.join(sorted(found))};"
                " take all but one of them out of it"
            )
        for name, about in found.items():
            if name == self._names.write:
                raise self._taken(name)
            return Index.of(name, about)
        return None

    def searched(self) -> Index | None:
        """Return the index that searches use; None unless it is as this program makes it."""
        found = self._found(self._names.search)
        if len(found) != 1:
            return None
        ((name, about),) = found.items()
        shown = about["aliases"].get(self._names.search, {})
        index = Index.of(name, about)
        if shown.get("filter") != LIVING or (_wrong(about) and not index.former):
            return None
        return index

    def exist(self) -> list[Index]:
        """Return all indices with a name of our own form, of any registry, by their number."""
        found = self._found(self._names.pattern)
        numbered = {name: self._names.number(name) for name in found}
        own = sorted((no, name) for name, no in numbered.items() if no is not None)
        return [Index.of(name, found[name]) for _, name in own]

    def of_uuid(self, uuid: str | None) -> Index | None:
        """Return the index of our own form with a UUID, whichever alias leads to it."""
        return next((one for one in self.exist() if one.uuid == uuid), None)

    def write_to(self, index: Index) -> None:
        """Let the write alias lead to an index."""
        add = {"index": index.name, "alias": self._names.write, "is_write_index": True}
        self._point([{"add": add}])

    def adopt(self, index: Index) -> Index:
        """Write the id of the registry into an index that is the registry's own, and return it.

        The caller has checked that: by its UUID, which the metadata names, and their identity.
        """
        if index.registry == self._registry or self._names.number(index.name) is None:
            return index
        mappings = self._found(index.name)[index.name]["mappings"]
        meta = {**mappings.get("_meta", {}), _REGISTRY: self._registry}
        self._ask(partial(self._client.indices.put_mapping, index=index.name, meta=meta))
        return index._replace(registry=self._registry)

    def check(self) -> None:
        """Check that the written index has the expected settings and fields, and takes writes.

        Raises:
            SinkError: with the differences and the remedy.
        """
        for name, about in self._found(self._names.write).items():
            version = about["mappings"].get("_meta", {}).get("version")
            if version != MAPPING_VERSION:
                raise SinkError(
                    f"{self._name}: {name} was made for version {version} of the fields, and this"
                    f" program writes version {MAPPING_VERSION}; {REBUILD}"
                )
            wrong = _wrong(about)
            if wrong:
                more = f", and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
                raise SinkError(
                    f"{self._name}: {name} is not as this program made it:"
                    f" {', '.join(wrong[:_SHOWN])}{more}; {REBUILD}"
                )
            blocks = about["settings"]["index"].get("blocks", {})
            closed = [block for block in _BLOCKS if str(blocks.get(block, "")).lower() == "true"]
            if closed:
                raise index_forbidden(self._name, f"{name} has the block {', '.join(closed)}")

    def is_empty(self, name: str) -> bool:
        """Whether an index has no document yet, not even a tombstone."""
        request = partial(self._client.count, index=name)
        return bool(self._ask(request)["count"] == 0)

    def show(self) -> None:
        """Let searches see the written index, without its tombstones."""
        self._point([self._shown(name) for name in self._found(self._names.write)])

    def make(self, embedder: EmbedderKey | None = None, *, searched: bool) -> None:
        """Create the next index, and let the write alias lead to it alone.

        ``embedder``: it has a field for its vectors. ``searched``: searches use it, too. Two
        processes may do this at the same time.

        Raises:
            SinkError: the server is too old for vectors, or does not make it.
        """
        if embedder is not None:
            self._check_vectors()
        wanted = index_template(self._names.pattern, embedder)
        self._ask(
            partial(self._client.indices.put_index_template, name=self._names.template, **wanted)
        )
        name = self._next(searched=searched)
        meta = {**index_mappings(embedder)["_meta"], _REGISTRY: self._registry}
        make = self._client.options(ignore_status=400).indices.create
        fault = self._ask(partial(make, index=name, mappings={"_meta": meta})).get("error", {})
        if fault and fault.get("type") != "resource_already_exists_exception":
            raise SinkError(f"{self._name} does not make {name}: {fault.get('reason')}")
        write = self._names.write
        actions: list[dict[str, Any]] = [
            *self._out_of(write, name),
            {"add": {"index": name, "alias": write, "is_write_index": True}},
        ]
        self._point([*actions, *([self._shown(name)] if searched else [])])

    def _next(self, *, searched: bool) -> str:
        """Return the name of the index that ``make`` creates; a searched one may be there."""
        exist = self.exist()
        numbers = [self._names.number(index.name) or 0 for index in exist]
        place = max(numbers, default=0)
        if searched and exist and exist[-1].registry in (None, self._registry):
            return exist[-1].name  # an opening was interrupted
        return self._names.numbered(place + 1)

    def _out_of(self, alias: str, kept: str) -> list[dict[str, Any]]:
        """Return the actions that take all indices but one out of an alias."""
        return [
            {"remove": {"index": name, "alias": alias, "must_exist": False}}
            for name in self._found(alias)
            if name not in (kept, alias)
        ]

    def _check_vectors(self) -> None:
        version = str(self._ask(self._client.info)["version"]["number"])
        if tuple(map(int, version.split(".")[:2])) < _WITH_VECTORS:
            least = ".".join(map(str, _WITH_VECTORS))
            raise SinkError(
                f"{self._name} is an Elasticsearch {version}, and vectors need {least} or later:"
                " leave EMBEDDER empty, or upgrade it"
            )

    def publish(self) -> tuple[Index, list[str]]:
        """Let searches see the written index alone, and delete the others of this registry.

        Returns the index, and the names of the indices of our own form that others made: they stay.
        """
        index = self.written()
        if index is None:
            raise SinkError(f"{self._name} lacks the alias {self._names.write}; {REBUILD}")
        others = [one for one in self.exist() if one.name != index.name]
        gone = [one.name for one in others if one.registry == self._registry]
        hidden = self._out_of(self._names.search, index.name)
        self._point([
            *(one for one in hidden if one["remove"]["index"] not in gone),
            *({"remove_index": {"index": name}} for name in gone),
            self._shown(index.name),
        ])  # fmt: skip
        return index, [one.name for one in others if one.name not in gone]

    def _shown(self, name: str) -> dict[str, Any]:
        return {"add": {"index": name, "alias": self._names.search, "filter": LIVING}}

    def _point(self, actions: list[dict[str, Any]]) -> None:
        """Change aliases in one step."""
        update = self._client.options(ignore_status=400).indices.update_aliases
        fault = self._ask(partial(update, actions=actions)).get("error")
        if not fault:
            return
        if fault.get("type") == "invalid_alias_name_exception":
            raise self._taken(self._names.search)
        raise SinkError(f"{self._name} does not change its aliases: {fault.get('reason')}")

    def _taken(self, name: str) -> SinkError:
        return SinkError(
            f"{self._name} has an index {name} that is not ours, where an alias of that name has"
            " to be: name another ELASTICSEARCH_INDEX_PREFIX"
        )

    def _found(self, name: str) -> Mapping[str, Any]:
        get = self._client.options(ignore_status=404).indices.get
        found = self._ask(partial(get, index=name))
        return {} if "error" in found else found

    def _ask(self, request: Any) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = index_answer(self._name, request, self._patience).body
        return answer


def _wrong(about: Mapping[str, Any]) -> list[str]:
    """Return how settings and fields of an index differ from those that this program makes."""
    fields = index_mappings(mapped_embedder(about["mappings"]))
    return [
        *mapping_differences(index_settings(), about["settings"]),
        *mapping_differences(fields, about["mappings"]),
    ]
