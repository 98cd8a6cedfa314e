"""A cross-encoder: a model in a folder that reads a question together with a text.

It says how well the text answers the question, where a sentence model compares two vectors that
were made apart. The folder has the same files as that of a sentence model:

- ``model.onnx``, or else ``onnx/model.onnx``: the network, with one number for each pair.
- ``tokenizer.json``: the tokenizer, which puts the marks of a pair around both texts.
- ``tokenizer_config.json``: the tokens that the model reads at once (``model_max_length``).

No text leaves the machine, and nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isfinite
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Final

from smartcrawl.index.embedding.onnx import (
    ModelUse,
    model_feed,
    model_inputs,
    model_object,
    open_model,
)
from smartcrawl.index.embedding.ports import tokenizable_text
from smartcrawl.model.exceptions import RerankError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, RunOptions
    from tokenizers import Tokenizer

_USE: Final = ModelUse("reranking", "cross-encoder", "RERANK_FOLDER", "RERANK_FOLDER")
_LENGTH: Final = "tokenizer_config.json"
#: Tokens of a pair that are read, at most: time grows faster than their number.
MOST_PAIR_TOKENS: Final = 256
_FATAL: Final = 4  #: severity of what the runtime logs about a pair; errors are raised
_LONGEST: Final = 3_600.0  #: seconds for the pair by which the model is tried


class CrossEncoder:
    """A loaded model. Several threads may use it."""

    def __init__(self, path: Path, session: InferenceSession, pieces: Tokenizer) -> None:
        """Look at the network, and let it read a pair.

        Raises:
            SettingError: it takes or gives something else than a cross-encoder.
        """
        self.path = path
        self._session, self._pieces = session, pieces
        pieces.enable_truncation(_tokens(path), strategy="longest_first")
        try:
            self._inputs = model_inputs(session)
            self.scores("a", ["a"], _LONGEST)
        except (ValueError, RerankError) as error:
            raise _USE.wrong(path, str(error)) from error

    def scores(self, question: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Return how well each text answers a question, in the order of the texts.

        Pairs are read one by one, as sentence models read texts.

        Raises:
            TimeoutError: it took longer than ``seconds``; the network is stopped.
            RerankError: the network fails.
        """
        from onnxruntime import RunOptions  # noqa: PLC0415  # of the extra; loaded by then

        order = RunOptions()
        order.log_severity_level = _FATAL
        timer = Timer(seconds, setattr, (order, "terminate", True))
        timer.daemon = True
        timer.start()
        try:
            return [self._score(question, text, order) for text in texts]
        finally:
            timer.cancel()

    def _score(self, question: str, text: str, order: RunOptions) -> float:
        pair = self._pieces.encode(tokenizable_text(question), tokenizable_text(text))
        feed = model_feed(self._inputs, pair.ids, pair.type_ids)
        try:
            found = self._session.run(None, feed, order)[0]
        except Exception as error:  # of the library, which has no common type
            if order.terminate:
                raise TimeoutError from error
            raise RerankError(f"its network fails ({error})") from error
        if order.terminate:
            raise TimeoutError
        if found.size != 1:
            raise RerankError(f"its network gives {found.size} numbers for a pair instead of one")
        score = float(found.item())
        if not isfinite(score):
            raise RerankError("its network gives a number that is not finite")
        return score


def _tokens(path: Path) -> int:
    found = model_object(path, _LENGTH, _USE).get("model_max_length")
    if not isinstance(found, int | float) or isinstance(found, bool):
        return MOST_PAIR_TOKENS
    if not found >= 8:  # also where it is no number
        raise _USE.wrong(path, f"model_max_length in its file {_LENGTH} is {found!r}")
    return int(min(found, MOST_PAIR_TOKENS))


@cache
def loaded_cross_encoder(path: Path) -> CrossEncoder:
    """Return the model in a folder; to load it takes about a second, once in a process.

    Raises:
        SettingError: a package is missing, or the folder has no model that can be used.
    """
    session, pieces = open_model(path, _USE)
    return CrossEncoder(path, session, pieces)
