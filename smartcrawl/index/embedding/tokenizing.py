"""Reading of texts by the package ``tokenizers``, for models that run on this machine."""

from __future__ import annotations

import os
from typing import Final

#: Characters of a text that count. A word of that length takes 0.02 s; chunks are far shorter.
MOST_CHARACTERS: Final = 100_000


def tokenizable_text(text: str) -> str:
    """Return the part of a text that counts, without lone surrogates: tokenizers refuse them."""
    return text[:MOST_CHARACTERS].encode("utf-8", "ignore").decode()


def keep_tokenizer_in_one_thread() -> None:
    """Let tokenizers that are loaded from now on start no threads; forked processes lose them."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the package has no other switch
