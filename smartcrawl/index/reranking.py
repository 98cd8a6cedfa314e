"""The first hits of a search in the order of a cross-encoder (``RERANK_FOLDER``), where one is set.

It reads each of these hits with the question, so it is asked about few, and for a time that the
settings limit. Where it fails or takes too long, the order of the index stays, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Final, TypeVar, cast

from smartcrawl.index.queries import search_query_text
from smartcrawl.index.searching import PLAIN, Answer, AnswerForm, Hit
from smartcrawl.model.exceptions import RerankError, SettingError
from smartcrawl.model.option_groups import RerankOptions
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection

MOST_RERANKED: Final = 20  #: hits that change their places; later ones keep theirs

_Search = TypeVar("_Search", bound=Callable[..., Answer])


def reranked(search: _Search) -> _Search:
    """Let a search put its first hits in the order of the cross-encoder of the options.

    All pages of hits are of one order: for any page among the first hits, all of these are read.
    """

    @wraps(search)
    def wrapped(
        connection: Connection,
        query: str,
        options: Options,
        *,
        limit: int = 10,
        offset: int = 0,
        form: AnswerForm = PLAIN,
        **within: Any,
    ) -> Answer:
        within["form"] = form
        chosen = options.rerank
        if chosen is None or offset >= MOST_RERANKED or limit < 1 or form.by_date:
            return search(connection, query, options, limit=limit, offset=offset, **within)
        end = max(offset + limit, MOST_RERANKED)
        found = search(connection, query, options, limit=end, **within)
        first, note = rerank_hits(found.meant or query, found.hits[:MOST_RERANKED], chosen)
        hits = [*first, *found.hits[MOST_RERANKED:]][offset : offset + limit]
        return replace(found, hits=hits, note="; ".join(filter(None, (found.note, note))))

    return cast(_Search, wrapped)


def rerank_hits(
    query: str, hits: Sequence[Hit], options: RerankOptions
) -> tuple[Sequence[Hit], str]:
    """Return hits in the order of a cross-encoder, and a note where theirs stays.

    A hit takes the score of its new place, so that scores fall as before. Of equal ones the order
    stays.
    """
    if len(hits) < 2:
        return hits, ""
    from smartcrawl.index.embedding.cross_encoder import (  # noqa: PLC0415  # of an extra
        loaded_cross_encoder,
    )

    question, texts = search_query_text(query), [_text(hit) for hit in hits]
    try:
        model = loaded_cross_encoder(options.folder)
        scores = model.scores(question, texts, options.seconds)
    except TimeoutError:
        seconds = f"RERANK_SECONDS ({options.seconds:g} s)"
        return hits, f"not reranked: the model in {options.folder} took longer than {seconds}"
    except RerankError as error:
        return hits, f"not reranked, by the model in {options.folder}: {error}"
    except SettingError as error:
        return hits, f"not reranked: {error}"
    order = sorted(range(len(hits)), key=lambda n: -scores[n])
    return [replace(hits[n], score=place.score) for n, place in zip(order, hits, strict=True)], ""


def _text(hit: Hit) -> str:
    """Return what the model reads of a hit: title and headings, and its best chunk."""
    best = hit.chunks[0] if hit.chunks else None
    parts = (hit.title, best.path, best.text) if best else (hit.title, hit.description)
    return "\n".join(filter(None, parts))
