"""The embedder ``onnx``: a sentence model of the user's, which this machine runs.

The folder of a sentence model: its files as sentence-transformers names them, checked.

- ``model.onnx``, or else ``onnx/model.onnx``: the network.
- ``tokenizer.json``: the tokenizer.
- ``1_Pooling/config.json``: how the vectors of tokens become one; missing: by their mean.
- ``sentence_bert_config.json``: the tokens that the model reads at once (``max_seq_length``).
- ``modules.json``: the layers of the model; those that are unknown are refused.
- ``config_sentence_transformers.json``: words before each text and question (``prompts``).

No text leaves the machine, and nothing is downloaded: the model's files are in a folder
(``model_folder``), and the runtime's reports to its maker are switched off. Such a model reads a
sentence, where ``local`` adds up its words, and takes a hundred times as long.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from hashlib import file_digest, sha256
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from smartcrawl.index.embedding.ports import (
    RefusedText,
    Vector,
    keep_tokenizer_in_one_thread,
    tokenizable_text,
)
from smartcrawl.model.exceptions import EmbedderError, SettingError
from smartcrawl.model.option_groups import MOST_DIMENSIONS
from smartcrawl.model.program import extra_installation

#: Tokens that are read at once where no file says how many; and the most, for time and memory
#: grow by the square. Longer texts are read in parts.
TOKENS: Final = 256
MOST_TOKENS: Final = 512
_NETWORKS: Final = ("model.onnx", "onnx/model.onnx")
_TOKENIZER: Final = "tokenizer.json"
_POOLING: Final = "1_Pooling/config.json"
_LENGTH: Final = "sentence_bert_config.json"
_MODULES: Final = "modules.json"
_PROMPTS: Final = "config_sentence_transformers.json"
_TEXT_PROMPTS: Final = ("document", "passage", "corpus")  #: its names, the first that is there
_KNOWN_MODULES: Final = frozenset({"Transformer", "Pooling", "Normalize"})
_DATA: Final = ("_data", ".data")  #: endings of a network's weights in a file of their own


class Pooling(StrEnum):
    """Ways to one vector out of those of a text's tokens."""

    MEAN = "mean_tokens"
    FIRST = "cls_token"  #: that of the first token


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """The files of a model, and what they say of its use."""

    path: Path
    network: Path
    tokenizer: Path
    pooling: Pooling
    tokens: int  #: tokens that are read at once, those that the tokenizer adds included
    text: str  #: words before each text
    query: str  #: words before each question

    @classmethod
    def of(cls, path: Path) -> ModelFolder:
        """Look at the files of a folder; the network is not loaded.

        Raises:
            SettingError: a file is missing, is no JSON, or asks for what is not known here.
        """
        network, tokenizer = model_files(path, _SENTENCES)
        _check_modules(path)
        text, query = _prompts(path)
        return cls(
            path=path,
            network=network,
            tokenizer=tokenizer,
            pooling=_pooling(path),
            tokens=_tokens(path),
            text=text,
            query=query,
        )

    @cached_property
    def digest(self) -> str:
        """Eight digits of a hash of all that decides about a vector, wherever the folder is."""
        facts = (self.pooling, self.tokens, self.text, self.query)
        found = sha256(json.dumps(facts).encode())
        files = [self.network, *self._weights(), self.tokenizer]
        try:
            for file in files:
                with file.open("rb") as source:
                    found.update(file_digest(source, "sha256").digest())
        except OSError as error:
            raise wrong_model_folder(self.path, str(error)) from error
        return found.hexdigest()[:8]

    def _weights(self) -> Iterator[Path]:
        """Return the files beside the network that have its weights, as large ones do."""
        for ending in _DATA:
            file = self.network.with_name(self.network.name + ending)
            if file.is_file():
                yield file


class ModelUse(NamedTuple):
    """What a model in a folder is used for, as its errors say."""

    user: str  #: such as "the embedder 'onnx'"
    kind: str  #: such as "sentence model"
    folder: str  #: the setting of the folder
    switch: str  #: the setting that is empty where no model is wanted

    def wrong(self, path: Path, reason: str) -> SettingError:
        """Return the error of a folder that holds no model that can be used."""
        return SettingError(
            f"{self.folder} is {str(path)!r}: {reason}; expected the folder of a {self.kind} with"
            " model.onnx and tokenizer.json"
        )


_SENTENCES: Final = ModelUse(
    "the embedder 'onnx'", "sentence model", "EMBEDDING_FOLDER", "EMBEDDER"
)
wrong_model_folder = _SENTENCES.wrong


def model_files(path: Path, use: ModelUse) -> tuple[Path, Path]:
    """Return the files of network and tokenizer in the folder of a model.

    Raises:
        SettingError: the folder or one of them is missing.
    """
    if not path.is_dir():
        raise use.wrong(path, "there is no such folder")
    network = next((path / name for name in _NETWORKS if (path / name).is_file()), None)
    if network is None:
        raise use.wrong(path, f"it has no file {' or '.join(_NETWORKS)}")
    if not (path / _TOKENIZER).is_file():
        raise use.wrong(path, f"it has no file {_TOKENIZER}")
    return network, path / _TOKENIZER


def open_model(path: Path, use: ModelUse) -> tuple[InferenceSession, Tokenizer]:
    """Return network and tokenizer of the model in a folder.

    Raises:
        SettingError: a package or a file is missing, or a file cannot be loaded.
    """
    keep_tokenizer_in_one_thread()
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # else the runtime reports to its maker
    try:
        import numpy  # noqa: F401, PLC0415  # of an extra
        from onnxruntime import InferenceSession, SessionOptions  # noqa: PLC0415  # likewise
        from tokenizers import Tokenizer  # noqa: PLC0415  # likewise
    except ImportError as error:
        raise SettingError(
            f"{use.user} needs packages that are not installed ({error}): run"
            f" {extra_installation('onnx')}; or leave {use.switch} empty"
        ) from error
    network, tokenizer = model_files(path, use)
    chosen = SessionOptions()
    chosen.log_severity_level = 3  # errors; they are raised as well
    chosen.add_session_config_entry("session.intra_op.allow_spinning", "0")  # others have work
    try:
        pieces = Tokenizer.from_file(str(tokenizer))
        session = InferenceSession(str(network), chosen, providers=["CPUExecutionProvider"])
    except Exception as error:  # of both libraries, about files that they cannot read
        raise use.wrong(path, f"its files cannot be loaded ({error})") from error
    pieces.no_truncation()
    pieces.no_padding()
    return session, pieces


def model_inputs(session: InferenceSession) -> dict[str, str]:
    """Return the types of numbers that a network takes, by the names of its inputs.

    Raises:
        ValueError: it takes others than the numbers of tokens and their masks.
    """
    found = {one.name: _NUMBERS.get(one.type, "") for one in session.get_inputs()}
    if not {"input_ids"} <= set(found) <= set(_INPUTS) or "" in found.values():
        raise ValueError(f"its network takes {', '.join(found)}")
    return found


def model_feed(inputs: Mapping[str, str], tokens: Sequence[int], types: Sequence[int]) -> Any:
    """Return the inputs of a network for one row of tokens; ``types``: of which text each is."""
    import numpy  # noqa: PLC0415  # of the extra; loaded by then

    given = (tokens, [1] * len(tokens), types)
    return {
        name: numpy.array([numbers], dtype=inputs[name])
        for name, numbers in zip(_INPUTS, given, strict=True)
        if name in inputs
    }


def _json(path: Path, name: str, use: ModelUse = _SENTENCES) -> Any:
    """Return the value in a file; None: there is no such file."""
    try:
        return json.loads((path / name).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise use.wrong(path, f"its file {name} cannot be read ({error})") from error


def model_object(path: Path, name: str, use: ModelUse = _SENTENCES) -> dict[str, Any]:
    """Return the object in a file of a model's folder; an empty one: there is no such file.

    Raises:
        SettingError: the file cannot be read, or has something else.
    """
    found = _json(path, name, use)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise use.wrong(path, f"its file {name} has no JSON object")
    return found


def _check_modules(path: Path) -> None:
    found = _json(path, _MODULES)
    if found is None:
        return
    try:
        names = {str(module["type"]).rpartition(".")[2] for module in found}
    except (TypeError, KeyError) as error:
        raise wrong_model_folder(path, f"its file {_MODULES} has no list of modules") from error
    unknown = sorted(names - _KNOWN_MODULES)
    if unknown:
        raise wrong_model_folder(
            path,
            f"its file {_MODULES} names {', '.join(unknown)}, which is not a part of the network"
            " and unknown here",
        )


def _prompts(path: Path) -> tuple[str, str]:
    """Return the words before each text, and those before each question."""
    found = model_object(path, _PROMPTS)
    prompts = found.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(type(one) is str for one in prompts.values()):
        raise wrong_model_folder(path, f"prompts in its file {_PROMPTS} has no texts by name")
    default = prompts.get(str(found.get("default_prompt_name")), "")
    # The end is white space between words, which some tokenizers would make a token of.
    text, query = (
        next((prompts[name] for name in names if name in prompts), default).rstrip()
        for names in (_TEXT_PROMPTS, ("query",))
    )
    return text, query


def _pooling(path: Path) -> Pooling:
    found = model_object(path, _POOLING)
    prefix = "pooling_mode_"
    modes = {
        name.removeprefix(prefix) for name, value in found.items() if value is True
        and name.startswith(prefix)
    }  # fmt: skip
    newer = found.get("pooling_mode")  # a name in place of a row of switches
    if isinstance(newer, str):
        modes.add({"mean": Pooling.MEAN, "cls": Pooling.FIRST}.get(newer, newer))
    if not modes:
        return Pooling.MEAN
    if len(modes) > 1 or not modes <= set(Pooling):
        raise wrong_model_folder(
            path,
            f"its file {_POOLING} wants {' and '.join(sorted(modes))}, and only"
            f" {' or '.join(Pooling)} is known",
        )
    return Pooling(modes.pop())


def _tokens(path: Path) -> int:
    found = model_object(path, _LENGTH).get("max_seq_length")
    if found is None:
        return TOKENS
    if type(found) is not int or found < 8:
        raise wrong_model_folder(path, f"max_seq_length in its file {_LENGTH} is {found!r}")
    return min(found, MOST_TOKENS)


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
        try:
            self._inputs = model_inputs(session)
        except ValueError as error:
            raise self._wrong(str(error)) from error
        names = [one.name for one in session.get_outputs()]
        self._is_whole = _WHOLE in names
        self._output = _WHOLE if self._is_whole else names[0]
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

        feed = model_feed(self._inputs, tokens, [0] * len(tokens))
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
    session, pieces = open_model(path, _SENTENCES)
    return _Network(ModelFolder.of(path), session, pieces)
