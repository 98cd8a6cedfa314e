"""ogx, a server of vector stores, in an environment of its own, as `ogx/start` starts it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest

from tests.openai_server import Reply, Request, error, openai_server
from tests.servers.cache import UnavailableError, absent, cache_base, locked
from tests.servers.folders import data_folder
from tests.servers.processes import Server, run_whole, with_parent

POISON = "poison"  #: a text with this word cannot be embedded
_TOOLS = Path(__file__).parent / "ogx"
_REQUIREMENTS = _TOOLS / "requirements.txt"
_OLDEST = (3, 12)
_INSTALL_SECONDS = 1_200
_ANSWER_SECONDS = 5
_MODEL = "ours"
_DIMENSION = 16
_ASKS = f"import ensurepip, sys, venv; sys.exit(sys.version_info < {_OLDEST})"


class Ogx(Server):
    """An ogx on loopback; its stores and files outlive `kill()` and `start()`."""

    name = "ogx"
    _start_seconds = 180

    def __init__(self, folder: Path, python: Path, embeddings: int) -> None:
        super().__init__(folder)
        self._python = python
        self._embeddings = embeddings  #: port of the server that embeds

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _command(self) -> Sequence[str | Path]:
        config = self._folder / "config.json"  # JSON is YAML
        config.write_text(json.dumps(_config(self._folder, self.port, self._embeddings)))
        start = (self._python, _TOOLS / "start", "run", "--insecure", config)
        return [*with_parent(self._ending), *start]

    def _environment(self) -> Mapping[str, str]:
        return {
            "HOME": str(self._folder), "TMPDIR": str(self._folder),
            "OGX_LOG_FORMAT": "json", "OGX_LOGGING": "all=info",
            "NO_PROXY": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": "",
        }  # fmt: skip

    def _answers(self) -> bool:
        if not self.running or "Application startup complete" not in self.output:
            return False
        with suppress(OSError):
            health = build_opener(ProxyHandler({})).open(
                f"{self.url}/health", timeout=_ANSWER_SECONDS
            )
            return health.status == 200
        return False


@contextmanager
def ogx_server(*, port: int | None = None) -> Iterator[Ogx]:
    """Run ogx; without `port`, a free one is taken. Without Python 3.12 the test is skipped."""
    python = newer_python()
    if python is None:
        pytest.skip("ogx is not available: it needs Python 3.12 or later, on PATH or of pyenv")
    found = ogx_lookup(python)
    if isinstance(found, UnavailableError):
        absent(f"ogx is not available: {found}")
    with data_folder() as folder, openai_server(_embedded) as embeddings:
        server = Ogx(folder, found, embeddings)
        try:
            server.begin(port)
            yield server
        finally:
            server.stop()


def _config(folder: Path, port: int, embeddings: int) -> dict[str, object]:
    def stored(name: str) -> dict[str, str]:
        return {"namespace": name, "backend": "keys"}

    def provider(name: str, kind: str, **config: object) -> list[dict[str, object]]:
        return [{"provider_id": name, "provider_type": kind, "config": config}]

    model = {"provider_id": _MODEL, "model_id": _MODEL}
    files = {"table_name": "files", "backend": "rows"}
    return {
        "version": 2,
        "distro_name": "smartcrawl-tests",
        "apis": ["inference", "vector_io", "files", "file_processors"],
        "providers": {
            "inference": provider(
                _MODEL,
                "remote::openai",
                api_key="none",
                base_url=f"http://127.0.0.1:{embeddings}/v1",
                allowed_models=[_MODEL],
            ),
            "vector_io": provider("faiss", "inline::faiss", persistence=stored("faiss")),
            "files": provider(
                "localfs",
                "inline::localfs",
                storage_dir=str(folder / "files"),
                metadata_store=files,
            ),
            "file_processors": provider("auto", "inline::auto"),
        },
        "storage": {
            "backends": {
                "keys": {"type": "kv_sqlite", "db_path": str(folder / "keys.db")},
                "rows": {"type": "sql_sqlite", "db_path": str(folder / "rows.db")},
            },
            "stores": {
                "metadata": stored("registry"),
                "inference": {"table_name": "inference", "backend": "rows"},
                "conversations": {"table_name": "conversations", "backend": "rows"},
                "prompts": {"table_name": "prompts", "backend": "rows"},
                "connectors": {"table_name": "connectors", "backend": "rows"},
            },
        },
        "registered_resources": {
            "models": [
                {
                    **model,
                    "provider_model_id": _MODEL,
                    "model_type": "embedding",
                    "metadata": {"embedding_dimension": _DIMENSION},
                }
            ]
        },
        "server": {"host": "127.0.0.1", "port": port},
        "vector_stores": {"default_provider_id": "faiss", "default_embedding_model": model},
    }


def _embedded(request: Request) -> Reply:
    """Answer as a server of embeddings: a text's vector is made of its digest."""
    if request.path == "/v1/models":
        model = {"id": _MODEL, "object": "model", "created": 0, "owned_by": "tests"}
        return Reply({"object": "list", "data": [model]})
    if request.path != "/v1/embeddings":
        return error(f"Unknown request URL: {request.path}", 404)
    given = json.loads(request.body)["input"]
    texts = [given] if isinstance(given, str) else given
    if any(POISON in text for text in texts):
        return error("this text cannot be embedded", 400)
    data = [
        {"object": "embedding", "index": index, "embedding": _vector(text)}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return Reply({"object": "list", "model": _MODEL, "data": data, "usage": usage})


def _vector(text: str) -> list[float]:
    return [1 + byte / 255 for byte in sha256(text.encode()).digest()[:_DIMENSION]]


# What is not there is installed


@cache
def newer_python() -> Path | None:
    """A Python that can run ogx and make environments, or None; asked once per process."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    named = [shutil.which(f"python3.{minor}") for minor in range(_OLDEST[1], 15)]
    found = [sys.executable, *(name for name in named if name)]
    found += map(str, sorted(root.glob("versions/3.*/bin/python3")))
    for python in found:
        with suppress(OSError, subprocess.SubprocessError):
            if subprocess.run([python, "-c", _ASKS], capture_output=True, check=False,
                              timeout=60).returncode == 0:  # fmt: skip
                return Path(python)
    return None


@cache
def ogx_lookup(python: Path) -> Path | UnavailableError:
    """The Python of its environment; asked once per process: without a network it is slow."""
    try:
        return _installed(python)
    except UnavailableError as error:
        return error
    except (OSError, subprocess.SubprocessError) as error:
        return UnavailableError(str(error))


def _installed(python: Path) -> Path:
    """Install it at first use, by one process and complete or not at all."""
    wanted = f"{python}\n{_REQUIREMENTS.read_text()}"
    base = cache_base()
    tree = base / f"ogx-{sha256(wanted.encode()).hexdigest()[:12]}"
    with locked(base / "ogx.lock"):
        if not (tree / ".complete").is_file():
            shutil.rmtree(tree, ignore_errors=True)
            run_whole([python, "-m", "venv", tree], _INSTALL_SECONDS)
            options = ("--quiet", "--disable-pip-version-check", "--only-binary=:all:")
            run_whole(
                [tree / "bin/python", "-m", "pip", "install", *options, "-r", _REQUIREMENTS],
                _INSTALL_SECONDS,
            )
            (tree / ".complete").touch()
    return tree / "bin/python"
