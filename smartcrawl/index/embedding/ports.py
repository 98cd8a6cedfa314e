"""The protocol of an embedder, its vectors, and the texts that it refuses."""

from __future__ import annotations

import math
import os
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NewType, Protocol

#: Characters of a text that count. A word of that length takes 0.02 s; chunks are far shorter.
MOST_CHARACTERS: Final = 100_000


def tokenizable_text(text: str) -> str:
    """Return the part of a text that counts, without lone surrogates: tokenizers refuse them."""
    return text[:MOST_CHARACTERS].encode("utf-8", "ignore").decode()


def keep_tokenizer_in_one_thread() -> None:
    """Let tokenizers that are loaded from now on start no threads; forked processes lose them."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the package has no other switch


PAUSE: Final = 60.0  #: seconds in which a server is asked nothing after it was away for too long
#: ``dimension`` finite numbers as little-endian float32, of length (L2 norm) 1.
Vector = NewType("Vector", bytes)


@dataclass(frozen=True, slots=True)
class RefusedText:
    """A text that has no vector."""

    reason: str  #: for people, such as "the text is empty"
    lasting: bool = True  #: False: the answer was wrong, and another may have a vector


class Embedder(Protocol):
    """Makes vectors of texts. Two embedders with equal names, models and dimensions are equal.

    It may be used by several threads.
    """

    @property
    def name(self) -> str:
        """The value of ``EMBEDDER``: ``local``, ``onnx`` or ``openai``."""

    @property
    def model(self) -> str:
        """The model. Vectors of two models are never compared."""

    @property
    def dimension(self) -> int:
        """Numbers of each vector."""

    @property
    def texts_at_once(self) -> int:
        """Texts that callers give to one call, so that it takes some seconds at most."""

    @property
    def destination(self) -> str | None:
        """The host that texts are sent to, with its port; None: no text leaves this machine."""

    @property
    def location(self) -> str | None:
        """The folder or the address of the model, without a key; None: it comes with a package."""

    @property
    def answered_by(self) -> str:
        """The name of the model in a server's answers; empty: none so far."""

    def embed(self, texts: Sequence[str]) -> list[Vector | RefusedText]:
        """Return the vector of each text, or why it has none, in the order of the texts.

        It may wait for a server. An error loses the vectors of the whole call, so callers with many
        texts call it several times.

        Raises:
            EmbedderError: no answer about these texts; ``lasting`` says whether to ask again.
        """

    def embed_query(self, text: str) -> Vector | RefusedText:
        """Return the vector of a question, to compare with those of texts, or why it has none.

        Raises:
            EmbedderError: as of ``embed``.
        """

    def end_pause(self) -> None:
        """Let the next call ask a server again that is given a rest after an outage."""

    def close(self) -> None:
        """Close connections; a call that waits in another thread ends with an EmbedderError."""


def normed_vector(numbers: object, dimension: int) -> Vector | RefusedText:
    """Return numbers as a vector of length 1, or why they are none.

    ``numbers`` is the value of an answer: it may be anything that JSON has. What is wrong with it
    is no lasting property of the text.
    """
    if not isinstance(numbers, list) or not all(type(n) in (int, float) for n in numbers):
        return RefusedText("its vector is not a list of numbers", lasting=False)
    if len(numbers) != dimension:
        reason = f"its vector has {len(numbers)} numbers instead of {dimension}"
        return RefusedText(reason, lasting=False)
    try:
        length = math.hypot(*numbers)
    except OverflowError:  # a whole number beyond every float
        length = math.inf
    if not math.isfinite(length):
        return RefusedText("its vector has a number that is not finite", lasting=False)
    if not length:
        return RefusedText("its vector has only zeros", lasting=False)
    packed = array("f", [n / length for n in numbers])
    if sys.byteorder == "big":
        packed.byteswap()
    return Vector(packed.tobytes())


def mean_of_vectors(parts: Sequence[Vector], dimension: int) -> Vector | RefusedText:
    """Return the vector of a text out of those of its parts, which are about as long.

    Parts that cancel each other out would do so again: the text is refused for good.
    """
    sums = [0.0] * dimension
    for part in parts:
        packed = array("f", part)
        if sys.byteorder == "big":
            packed.byteswap()
        sums = [total + number for total, number in zip(sums, packed, strict=True)]
    mean = normed_vector(sums, dimension)
    return RefusedText(mean.reason) if isinstance(mean, RefusedText) else mean
