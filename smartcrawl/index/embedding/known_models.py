"""Sentence models that are known by name, and their files, pinned by SHA-256.

A digest here was made of a file that the embedder ``onnx`` then read; none was taken from another
list. The publisher's address of a file only says where it is: what comes has that digest, or is
dropped. Of a model without digests the address alone is known.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from smartcrawl.model.exceptions import ModelDownloadError
from smartcrawl.sources.web_client import WebAnswer, WebClient, WebError

_HOPS: Final = 5  #: redirects of one file
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SECONDS: Final = 900.0  #: for one file
_RETRIES: Final = 2


class FileState(StrEnum):
    """What a folder has of a file of a model."""

    MISSING = auto()
    VERIFIED = auto()  #: it has the digest, or the content that smartcrawl writes
    UNKNOWN = auto()  #: it is there; no digest is known, or it is a small file of the user's
    OTHER = auto()  #: it has other bytes than those that were hashed


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file of a model."""

    name: str  #: in the folder of the model
    source: str  #: below the address of the model
    size: int = 0  #: bytes; 0: not known
    digest: str = ""  #: SHA-256; empty: it was not hashed


@dataclass(frozen=True, kw_only=True)
class KnownModel:
    """A sentence model."""

    name: str
    languages: str
    weights: int  #: millions
    dimension: int  #: numbers of a vector
    megabytes: int  #: of all files; as its publisher says where they were not hashed
    license: str  #: by its identifier in SPDX
    home: str  #: address of its files
    files: tuple[KnownFile, ...]
    #: The content of its small JSON files, which say how it is used; smartcrawl writes them.
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_hashed(self) -> bool:
        """Whether all of its files can be verified."""
        return all(file.digest for file in self.files)

    def states(self, folder: Path) -> dict[str, FileState]:
        """Return what a folder has of each file; none is changed.

        Raises:
            ModelDownloadError: a file cannot be read.
        """
        try:
            found = {file.name: _state(folder / file.name, file.digest) for file in self.files}
            for name, content in self.config_files():
                state = _state(folder / name, sha256(content).hexdigest())
                found[name] = FileState.UNKNOWN if state is FileState.OTHER else state
        except OSError as error:
            raise ModelDownloadError(f"{folder} cannot be read: {error}") from error
        return found

    def config_files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the small files that smartcrawl writes, each with its content."""
        for name, content in self.config.items():
            yield name, f"{json.dumps(content)}\n".encode()


def _state(path: Path, digest: str) -> FileState:
    if not path.exists():
        return FileState.MISSING
    if not digest:
        return FileState.UNKNOWN
    with path.open("rb") as source:
        is_same = file_digest(source, "sha256").hexdigest() == digest
    return FileState.VERIFIED if is_same else FileState.OTHER


_HUB: Final = "https://huggingface.co"
_POOLING: Final = "1_Pooling/config.json"
_LENGTH: Final = "sentence_bert_config.json"
_PROMPTS: Final = "config_sentence_transformers.json"
_NETWORK: Final = "onnx/model_quantized.onnx"
_TOKENIZER: Final = "tokenizer.json"

MODELS: Final = (
    KnownModel(
        name="all-MiniLM-L6-v2",
        languages="English",
        weights=23,
        dimension=384,
        megabytes=24,
        license="Apache-2.0",
        home=f"{_HUB}/Xenova/all-MiniLM-L6-v2/resolve/main/",
        files=(
            KnownFile(
                "model.onnx",
                _NETWORK,
                22_972_370,
                "afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
            ),
            KnownFile(
                _TOKENIZER,
                _TOKENIZER,
                711_661,
                "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
            ),
        ),
        config={_LENGTH: {"max_seq_length": 256}, _POOLING: {"pooling_mode_mean_tokens": True}},
    ),
    KnownModel(
        name="multilingual-e5-small",
        languages="about 100 languages",
        weights=118,
        dimension=384,
        megabytes=135,
        license="MIT",
        home=f"{_HUB}/Xenova/multilingual-e5-small/resolve/main/",
        files=(KnownFile("model.onnx", _NETWORK), KnownFile(_TOKENIZER, _TOKENIZER)),
        config={
            _LENGTH: {"max_seq_length": 512},
            _POOLING: {"pooling_mode_mean_tokens": True},
            _PROMPTS: {"prompts": {"query": "query: ", "passage": "passage: "}},
        },
    ),
    KnownModel(
        name="bge-small-en-v1.5",
        languages="English",
        weights=33,
        dimension=384,
        megabytes=35,
        license="MIT",
        home=f"{_HUB}/Xenova/bge-small-en-v1.5/resolve/main/",
        files=(
            KnownFile(
                "model.onnx",
                _NETWORK,
                34_014_426,
                "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4",
            ),
            KnownFile(
                _TOKENIZER,
                _TOKENIZER,
                711_396,
                "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
            ),
        ),
        config={
            _LENGTH: {"max_seq_length": 512},
            _POOLING: {"pooling_mode_cls_token": True},
            _PROMPTS: {
                "prompts": {"query": "Represent this sentence for searching relevant passages: "}
            },
        },
    ),
)


def download_model(
    model: KnownModel, folder: Path, web: WebClient, report: Callable[[KnownFile], object]
) -> list[str]:
    """Put the files of a model in a folder; return the names of those that were missing.

    A file is there whole and verified, or not at all. ``report`` is called before each request.

    Raises:
        ModelDownloadError: a file was not hashed, is another one, does not come, or cannot be
            written.
    """
    if not model.is_hashed:
        raise ModelDownloadError(
            f"{model.name} is not downloaded, because its files were not hashed for this version:"
            f" take {' and '.join(file.source for file in model.files)} from {model.home}, and"
            f" put them in {folder} as {' and '.join(file.name for file in model.files)}"
        )
    states = model.states(folder)
    if others := [name for name, state in states.items() if state is FileState.OTHER]:
        raise ModelDownloadError(
            f"{folder} has another {' and '.join(others)} than {model.name}: remove it, or name"
            " another folder with EMBEDDING_FOLDER"
        )
    missing = [file for file in model.files if states[file.name] is FileState.MISSING]
    for file in missing:
        report(file)
        _write(folder / file.name, _downloaded(file, model.home, web))
    written = [name for name, _ in model.config_files() if states[name] is FileState.MISSING]
    for name, content in model.config_files():
        if name in written:
            _write(folder / name, content)
    return [*(file.name for file in missing), *written]


def _downloaded(file: KnownFile, home: str, web: WebClient) -> bytes:
    """Return the bytes of a file, which are those that were hashed.

    Raises:
        ModelDownloadError: they do not come, or others do.
    """
    url = urljoin(home, file.source)
    try:
        answer = _answer(url, file.size, web)
    except WebError as error:
        raise ModelDownloadError(f"{url} cannot be downloaded: {error}") from error
    found = sha256(answer.body).hexdigest()
    if found != file.digest:
        raise ModelDownloadError(
            f"{url} has other bytes than those that were hashed for this version (SHA-256 {found}"
            f" instead of {file.digest}), and nothing of it was kept"
        )
    return answer.body


def _answer(url: str, most: int, web: WebClient) -> WebAnswer:
    """Return the answer at the end of redirects; none leads from https to http."""
    for _ in range(_HOPS + 1):
        answer = web.ask_now(
            url, {"Accept": "*/*"}, most=max(most, 65_536), seconds=_SECONDS, retries=_RETRIES
        )
        if answer.status not in _REDIRECTS:
            break
        target = urljoin(url, answer.headers.get("location", ""))
        if urlsplit(target).scheme not in {"https", urlsplit(url).scheme}:
            raise WebError("a redirect leads away from https")
        url = target
    else:
        raise WebError(f"more than {_HOPS} redirects")
    if answer.status != 200:
        raise WebError(f"status {answer.status}")
    return answer


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise ModelDownloadError(f"{path} cannot be written: {error}") from error
