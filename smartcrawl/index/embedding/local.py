"""The local embedder: static vectors of word pieces, out of the wheel ``wordllama``.

No text leaves the machine, and nothing is downloaded. A vector is the mean of the rows of a text's
tokens, of length 1. The package's own code is not imported: its loader looks for the tokenizer in
another folder than the wheel's, and then asks a server for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from smartcrawl.index.embedding.ports import (
    RefusedText,
    Vector,
    keep_tokenizer_in_one_thread,
    tokenizable_text,
)
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.program import extra_installation

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_NAME: Final = "l2_supercat_256"
_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_TABLE: Final = "embedding.weight"  #: name of the only tensor in the file of weights
_DIMENSION: Final = 256
_AT_ONCE: Final = 64  #: texts whose tokens are in memory at the same time
_ROWS: Final = 4_096  #: rows of one text that are added at once: 4 MiB
_INSTALL: Final = f"run {extra_installation('vectors')}; or leave EMBEDDER empty"


class LocalEmbedder:
    """Embeds texts by static vectors, 256 numbers each.

    Tokens without meaning do not count: white space, and the bytes into which the tokenizer takes
    characters apart that it does not know, such as emoji. A text without any other is refused. Of a
    longer text than MOST_CHARACTERS only the beginning counts.
    """

    name: Final = "local"
    dimension: Final = _DIMENSION
    texts_at_once: Final = 256
    destination: Final = None
    location: Final = None
    answered_by: Final = ""

    def __init__(self) -> None:
        """Load the model, unless this process has loaded it before; it takes about 0.3 s.

        Raises:
            SettingError: a package is missing, or has other files than expected.
        """
        self.model, self._tokenizer, self._table = _loaded()

    def embed(self, texts: Sequence[str]) -> list[Vector | RefusedText]:
        """Return the vector of each text, or why it has none; it raises no EmbedderError."""
        return [answer for few in _slices(texts) for answer in self._embedded(few)]

    def embed_query(self, text: str) -> Vector | RefusedText:
        """Return the vector of a question, which is embedded like any other text."""
        return self.embed([text])[0]

    def end_pause(self) -> None:
        """There is no server."""

    def close(self) -> None:
        """Nothing is open; the model stays loaded for the process."""

    def _embedded(self, texts: Sequence[str]) -> Iterator[Vector | RefusedText]:
        import numpy  # noqa: PLC0415  # of the extra; loaded by then

        whole = [tokenizable_text(text) for text in texts]
        for tokens in self._tokenizer.encode_batch_fast(whole, add_special_tokens=False):
            ids = tokens.ids
            total = numpy.zeros(_DIMENSION, dtype="<f4")
            for start in range(0, len(ids), _ROWS):
                total += self._table.take(ids[start : start + _ROWS], axis=0).sum(axis=0)
            length = numpy.linalg.norm(total)
            if length:
                yield Vector((total / length).tobytes())
            else:
                yield RefusedText("the text has no word that the model knows")


def _slices(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE))


@cache
def _loaded() -> tuple[str, Tokenizer, NDArray[float32]]:
    """Return the model's name, tokenizer and table; rows of tokens without meaning are zero.

    The name has a digest of the files, so that another wheel's vectors are another model's.

    Raises:
        SettingError: a package is missing, or has other files than expected.
    """
    keep_tokenizer_in_one_thread()
    try:
        from safetensors.numpy import load  # noqa: PLC0415  # of an extra
        from tokenizers import Tokenizer  # noqa: PLC0415  # likewise
    except ImportError as error:
        raise SettingError(
            f"the embedder 'local' needs packages that are not installed ({error}): {_INSTALL}"
        ) from error
    folder = _package_folder()
    try:
        weights, pieces = ((folder / path).read_bytes() for path in (_WEIGHTS, _TOKENIZER))
        table = load(weights)[_TABLE].astype("<f4")
        tokenizer = Tokenizer.from_buffer(pieces)
    except Exception as error:  # of both libraries, about files that they cannot read
        raise _wrong_files(str(error)) from error
    if table.shape != (tokenizer.get_vocab_size(), _DIMENSION):
        raise _wrong_files(f"its table has the shape {table.shape}")
    table[_without_meaning(tokenizer)] = 0
    digest = sha256(weights + pieces).hexdigest()[:8]
    return f"{_NAME}-{digest}", tokenizer, table


def _package_folder() -> Path:
    """Return the folder of the package ``wordllama``; its code is not run."""
    spec = find_spec("wordllama")
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise SettingError(
            f"the embedder 'local' needs the package wordllama, which is not installed: {_INSTALL}"
        )
    return Path(folders[0])


def _wrong_files(reason: str) -> SettingError:
    return SettingError(
        "the embedder 'local' expects other files than the installed package wordllama has"
        f" ({reason}): {_INSTALL}"
    )


def _without_meaning(tokenizer: Tokenizer) -> list[int]:
    """Return the numbers of tokens that no word has: marks, single bytes, invisible characters."""
    return [
        number
        for token, number in tokenizer.get_vocab().items()
        if token in ("<unk>", "<s>", "</s>")
        or (len(token) == 6 and token.startswith("<0x"))
        or not token.strip("\N{LOWER ONE EIGHTH BLOCK}")
        or not token.isprintable()
    ]
