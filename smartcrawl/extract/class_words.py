"""Words in class and id of containers, by which what stands around an article is known."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# fmt: off

#: Words in class and id of what stands around an article.
AROUND: Final = frozenset({
    "advert", "advertisement", "advertisements", "author", "authorbox", "banner", "bio",
    "breadcrumb", "breadcrumbs", "buttons", "byline", "comment", "commentlist", "comments",
    "cookie", "copyright", "cta", "disclaimer", "disqus", "donation", "footer", "gdpr",
    "kommentare", "login", "modal", "nav", "navigation", "newsletter", "next", "noprint",
    "outbrain", "overlay", "pager", "pagination", "popup", "prev", "promo", "promos", "rating",
    "recommendations", "recommended", "related", "relatedposts", "reply", "respond", "share",
    "sharedaddy", "shariff", "sharing", "sidebar", "signup", "similar", "social", "sponsored",
    "subscribe", "subscription", "taboola", "taglist", "tags", "toolbar", "topbar", "yarpp",
})
#: Those that may have more prose than the article.
LONG: Final = frozenset({"commentlist", "comments", "respond"})

# fmt: on

_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of "relatedPosts" or "related-posts"
_LONGEST: Final = 1_000  #: characters of a class that are read


@lru_cache(4_096)
def class_words_mean(words: str) -> tuple[bool, bool]:
    """Return whether one of the words of a class or id is in AROUND, and whether one is in LONG.

    >>> class_words_mean("entry relatedPosts"), class_words_mean("has-comments")
    ((True, False), (True, True))
    """
    parts = {part.lower() for part in _PART.findall(words[:_LONGEST])}
    return not AROUND.isdisjoint(parts), not LONG.isdisjoint(parts)
