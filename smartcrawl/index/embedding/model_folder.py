"""The folder of a sentence model: its files as sentence-transformers names them, checked.

- ``model.onnx``, or else ``onnx/model.onnx``: the network.
- ``tokenizer.json``: the tokenizer.
- ``1_Pooling/config.json``: how the vectors of tokens become one; missing: by their mean.
- ``sentence_bert_config.json``: the tokens that the model reads at once (``max_seq_length``).
- ``modules.json``: the layers of the model; those that are unknown are refused.
- ``config_sentence_transformers.json``: words before each text and question (``prompts``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Final

from smartcrawl.model.exceptions import SettingError

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
        if not path.is_dir():
            raise wrong_model_folder(path, "there is no such folder")
        network = next((path / name for name in _NETWORKS if (path / name).is_file()), None)
        if network is None:
            raise wrong_model_folder(path, f"it has no file {' or '.join(_NETWORKS)}")
        if not (path / _TOKENIZER).is_file():
            raise wrong_model_folder(path, f"it has no file {_TOKENIZER}")
        _check_modules(path)
        text, query = _prompts(path)
        return cls(
            path=path,
            network=network,
            tokenizer=path / _TOKENIZER,
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


def wrong_model_folder(path: Path, reason: str) -> SettingError:
    """Return the error of a folder that holds no model that can be used."""
    return SettingError(
        f"EMBEDDING_FOLDER is {str(path)!r}: {reason}; it takes the folder of a sentence model with"
        " model.onnx and tokenizer.json"
    )


def _json(path: Path, name: str) -> Any:
    """Return the value in a file; None: there is no such file."""
    try:
        return json.loads((path / name).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise wrong_model_folder(path, f"its file {name} cannot be read ({error})") from error


def _object(path: Path, name: str) -> dict[str, Any]:
    """Return the object in a file; an empty one: there is no such file."""
    found = _json(path, name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise wrong_model_folder(path, f"its file {name} has no JSON object")
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
    found = _object(path, _PROMPTS)
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
    found = _object(path, _POOLING)
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
    found = _object(path, _LENGTH).get("max_seq_length")
    if found is None:
        return TOKENS
    if type(found) is not int or found < 8:
        raise wrong_model_folder(path, f"max_seq_length in its file {_LENGTH} is {found!r}")
    return min(found, MOST_TOKENS)
