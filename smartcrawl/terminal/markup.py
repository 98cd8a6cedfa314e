"""Rich's markup without Rich: text that is safe in it, and its text without styles.

A pipe gets no styles, and importing Rich for it would take a sixth of the CPU of a search.
"""

from __future__ import annotations

import re
from typing import Final

_TAG: Final = re.compile(r"(?<!\\)(\\*+)\[([a-z#/@][^[\]]*+)\]")
#: Control characters that Rich leaves out or expands.
_CONTROLS: Final = re.compile(r"[\x07-\x09\x0b-\x0d]")


def escape(text: str) -> str:
    r"""Return a text as markup, so that nothing in it is a style.

    >>> escape("[red] list[0] \\[a]")
    '\\[red] list[0] \\\\\\[a]'
    """
    text = _TAG.sub(lambda found: rf"{found[1]}{found[1]}\[{found[2]}]", text)
    # One at the end would escape the tag that follows.
    return f"{text}\\" if text.endswith("\\") and not text.endswith("\\\\") else text


def markup_without_styles(markup: str) -> str | None:
    r"""Return the text of markup; None: Rich has to judge it, for a control or a stray end.

    >>> markup_without_styles("[bold]1. [/][link=x]a[/link] list[0] \\[red]")
    '1. a list[0] [red]'
    >>> [markup_without_styles(text) for text in ("a\tb", "a[/]", "[bold]a[/red]")]
    [None, None, None]
    """
    if _CONTROLS.search(markup):
        return None
    if "[" not in markup:
        return markup
    parts: list[str] = []
    styles: list[str] = []
    place = 0
    for found in _TAG.finditer(markup):
        slashes, tag = found.groups()
        parts += [markup[place : found.start()].replace("\\[", "["), "\\" * (len(slashes) // 2)]
        place = found.end()
        if len(slashes) % 2:
            parts.append(f"[{tag}]")
        elif not tag.startswith("/"):
            styles.append(tag.partition("=")[0])
        elif (name := tag[1:].strip()) not in ("", *styles) or not styles:
            return None
        else:
            styles.remove(name) if name else styles.pop()
    return "".join([*parts, markup[place:].replace("\\[", "[")])
