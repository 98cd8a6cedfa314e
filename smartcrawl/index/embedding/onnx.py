"""The embedder ``onnx``: a sentence model of the user's, which this machine runs.

No text leaves the machine, and nothing is downloaded: the model's files are in a folder
(``model_folder``), and the runtime's reports to its maker are switched off. Such a model reads a
sentence, where ``local`` adds up its words, and takes a hundred times as long.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from smartcrawl.index.embedding.model_folder import ModelFolder, Pooling, wrong_model_folder
from smartcrawl.index.embedding.ports import RefusedText, Vector
from smartcrawl.index.embedding.tokenizing import keep_tokenizer_in_one_thread, tokenizable_text
from smartcrawl.model.embedder_options import MOST_DIMENSIONS
from smartcrawl.model.exceptions import EmbedderError, SettingError
from smartcrawl.model.installing import extra_installation

if TYPE_CHECKING:
    from numpy import floating
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

    Numbers = NDArray[floating[Any]]

_NAME: Final = "onnx"
MOST_PARTS: Final = 16  #: of a text that count; each has as many tokens as the model reads at once
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_WHOLE: Final = "sentence_embedding"  #: output of networks that do the pooling themselves
_NUMBERS: Final = {"tensor(int64)": "<i8", "tensor(int32)": "<i4"}
_INSTALL: Final = f"run {extra_installation('onnx')}; or leave EMBEDDER empty"


class OnnxEmbedder:
    """Embeds texts by a sentence model in a folder.

    A text of more tokens than the model reads at once is read in parts, whose vectors are added by
    their lengths. A text without any token that the model knows is refused.
    """

    name: Final = _NAME
    texts_at_once: Final = 8
    destination: Final = None

    answered_by: Final = ""

    def __init__(self, folder: Path) -> None:
        """Load the model, unless this process has loaded it before; it takes about a second.

        Raises:
            SettingError: a package is missing, or the folder has no model that can be used.
        """
        self._network = _loaded(folder)
        self.location = str(folder)
        self._closed = Event()
        self.model = self._network.model
        self.dimension = self._network.dimension

    def embed(self, texts: Sequence[str]) -> list[Vector | RefusedText]:
        """Return the vector of each text, or why it has none, in the order of the texts.

        Raises:
            EmbedderError: the model fails, or this object is closed meanwhile; it lasts.
        """
        found = []
        for text in texts:
            if self._closed.is_set():
                raise EmbedderError("the embedder was closed", lasting=True)
            found.append(self._network.vector(text, self._network.before_text))
        return found

    def embed_query(self, text: str) -> Vector | RefusedText:
        """Return the vector of a question, or why it has none.

        Raises:
            EmbedderError: the model fails; it lasts.
        """
        return self._network.vector(text, self._network.before_query)

    def end_pause(self) -> None:
        """There is no server."""

    def close(self) -> None:
        """Let a call in another thread end after the text that it reads; the model stays loaded."""
        self._closed.set()


class _Network:
    """A loaded model."""

    def __init__(self, folder: ModelFolder, session: InferenceSession, pieces: Tokenizer) -> None:
        self.model = f"{_NAME}-{folder.digest}"
        self._folder, self._session, self._pieces = folder, session, pieces
        self._unknown = pieces.token_to_id(getattr(pieces.model, "unk_token", None) or "")
        self._inputs = {one.name: _NUMBERS.get(one.type) for one in session.get_inputs()}
        if not {"input_ids"} <= set(self._inputs) <= set(_INPUTS) or None in self._inputs.values():
            raise self._wrong(f"its network takes {', '.join(self._inputs)}")
        names = [one.name for one in session.get_outputs()]
        self._is_whole = _WHOLE in names
        self._output = _WHOLE if self._is_whole else names[0]
        pieces.no_truncation()
        pieces.no_padding()
        self.before_text, self.before_query = map(self._encoded, (folder.text, folder.query))
        self._room = folder.tokens - pieces.num_special_tokens_to_add(is_pair=False)
        if max(len(self.before_text), len(self.before_query)) > self._room // 2:
            raise self._wrong("the words before each text take more than half of the tokens")
        self.dimension = self._tried()

    def vector(self, text: str, before: Encoding) -> Vector | RefusedText:
        """Return the vector of a text, or why it has none; ``before`` it go these tokens.

        Raises:
            EmbedderError: the network fails.
        """
        import numpy  # noqa: PLC0415  # of the extra; loaded by then

        total = numpy.zeros(self.dimension, dtype="<f4")
        for part in self._parts(text, before):
            try:
                total += len(part) * self._computed(part.ids)
            except Exception as error:  # of the library, which has no common type
                message = f"the model in {self._folder.path} failed: {error}"
                raise EmbedderError(message, lasting=True) from error
        length = numpy.linalg.norm(total)
        if not numpy.isfinite(length):
            return RefusedText("its vector has a number that is not finite")
        if not length:
            return RefusedText("the text has no word that the model knows")
        return Vector((total / length).astype("<f4").tobytes())

    def _parts(self, text: str, before: Encoding) -> Iterator[Encoding]:
        """Yield the parts of a text, complete; none, where no token is known."""
        whole = self._encoded(text)
        if all(number == self._unknown for number in whole.ids):
            return
        whole.truncate(self._room - len(before))
        for part in (whole, *whole.overflowing[: MOST_PARTS - 1]):
            yield self._pieces.post_process(type(part).merge([before, part], growing_offsets=True))

    def _encoded(self, text: str) -> Encoding:
        """Return the tokens of a text alone."""
        return self._pieces.encode(tokenizable_text(text), add_special_tokens=False)

    def _computed(self, tokens: Sequence[int]) -> Numbers:
        """Return a vector of length 1 for a row of tokens.

        Rows are computed one by one: networks of whole numbers scale them by all that is computed
        together, so that a vector would depend on the texts beside it. It takes no longer.
        """
        import numpy  # noqa: PLC0415  # likewise

        row = numpy.array([tokens])
        given = (row, numpy.ones_like(row), numpy.zeros_like(row))
        feed = {
            name: numbers.astype(self._inputs[name])
            for name, numbers in zip(_INPUTS, given, strict=True)
            if name in self._inputs
        }
        (found,) = self._session.run([self._output], feed)
        if not self._is_whole:
            found = found[:, 0] if self._folder.pooling is Pooling.FIRST else found.mean(axis=1)
        with numpy.errstate(all="ignore"):  # what is not finite is refused later
            vector: Numbers = found[0] / numpy.linalg.norm(found[0])
        return vector

    def _tried(self) -> int:
        """Return the numbers of a vector, once the network has made one of the longest text."""
        try:
            longest = next(self._parts("a " * self._folder.tokens, self.before_text), None)
            found = self._computed(longest.ids if longest else [0] * self._folder.tokens)
        except Exception as error:
            raise self._wrong(f"its network fails ({error})") from error
        if found.ndim != 1 or not 0 < found.size <= MOST_DIMENSIONS:
            raise self._wrong(f"its network makes vectors of the shape {found.shape}")
        return found.size

    def _wrong(self, reason: str) -> SettingError:
        return wrong_model_folder(self._folder.path, reason)


@cache
def _loaded(path: Path) -> _Network:
    """Return the model in a folder.

    Raises:
        SettingError: a package is missing, or the folder has no model that can be used.
    """
    keep_tokenizer_in_one_thread()
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # else the runtime reports to its maker
    try:
        import numpy  # noqa: F401, PLC0415  # of an extra
        from onnxruntime import InferenceSession, SessionOptions  # noqa: PLC0415  # likewise
        from tokenizers import Tokenizer  # noqa: PLC0415  # likewise
    except ImportError as error:
        raise SettingError(
            f"the embedder 'onnx' needs packages that are not installed ({error}): {_INSTALL}"
        ) from error
    folder = ModelFolder.of(path)
    chosen = SessionOptions()
    chosen.log_severity_level = 3  # errors; they are raised as well
    chosen.add_session_config_entry("session.intra_op.allow_spinning", "0")  # others have work
    try:
        pieces = Tokenizer.from_file(str(folder.tokenizer))
        session = InferenceSession(str(folder.network), chosen, providers=["CPUExecutionProvider"])
    except Exception as error:  # of both libraries, about files that they cannot read
        raise wrong_model_folder(path, f"its files cannot be loaded ({error})") from error
    return _Network(folder, session, pieces)
