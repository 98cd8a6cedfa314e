"""`embed --model`: known sentence models, and their files, which come as they were hashed."""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from smartcrawl import settings
from smartcrawl.commands import embed
from smartcrawl.index.embedding.known_models import MODELS, FileState, KnownFile, KnownModel
from smartcrawl.index.embedding.onnx import ModelFolder, OnnxEmbedder, Pooling
from smartcrawl.model.exceptions import UsageError
from tests.index.embedding.small_models import save_small_model

Printed = pytest.CaptureFixture[str]
KEYS = [
    "model", "languages", "weights", "dimension", "bytes", "license", "home", "isHashed",
    "folder", "isWhole", "files", "downloaded",
]  # fmt: skip


class Hub:
    """A server of files on loopback; what it has at a path may be a redirect to another."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.files: dict[str, bytes | str] = {}
        self.moves = 302  #: status of redirects
        self.asked: list[str] = []


@contextmanager
def serving() -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append(self.path)
            found = hub.files.get(self.path)
            is_moved = isinstance(found, str)
            self.send_response(404 if found is None else hub.moves if is_moved else 200)
            body = found if isinstance(found, bytes) else b""
            if isinstance(found, str):
                self.send_header("Location", found)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub = Hub(server.server_port)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield hub
        server.shutdown()
        thread.join()


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving() as hub:
        yield hub


@pytest.fixture
def model(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """A small model that the hub has, as the only known one."""
    made = save_small_model(tmp_path / "made")
    files = []
    for name, source in (("model.onnx", "onnx/small.onnx"), ("tokenizer.json", "tokenizer.json")):
        content = (made / name).read_bytes()
        hub.files[f"/m/{source}"] = content
        files.append(KnownFile(name, source, len(content), sha256(content).hexdigest()))
    model = KnownModel(
        name="small", languages="English", weights=1, dimension=4, megabytes=1, license="MIT",
        home=f"{hub.url}/m/", files=tuple(files),
        config={"1_Pooling/config.json": {"pooling_mode_cls_token": True}},
    )  # fmt: skip
    monkeypatch.setattr(embed, "_MODELS", {"small": model})
    return model


class Place:
    """The command with the settings of one folder."""

    def __init__(self, folder: Path, printed: Printed, port: int) -> None:
        self.folder = folder / "data" / "models" / "small"
        self._printed = printed
        self.settings: dict[str, Any] = {
            "DATA_DIR": str(folder / "data"), "ALLOW_NETWORKS": "127.0.0.1",
            "ALLOW_PORTS": str(port),
        }  # fmt: skip

    def run(self, *words: str, expect: int = 0, **changed: object) -> tuple[str, str]:
        command = embed.Command()
        command.settings = settings.defaults | self.settings | changed
        parser = ArgumentParser()
        command.add_options(parser)
        options, args = parser.parse_known_args(list(words))
        command.run(args, options)
        shown = self._printed.readouterr()
        assert command.exitcode == expect, shown
        return shown.out, shown.err

    def json(self, *words: str, **changed: object) -> Any:
        return json.loads(self.run(*words, "--format", "json", **changed)[0])


@pytest.fixture
def place(tmp_path: Path, capsys: Printed, hub: Hub) -> Place:
    return Place(tmp_path, capsys, int(hub.url.rpartition(":")[2]))


def states(report: dict[str, Any]) -> dict[str, str]:
    return {file["name"]: file["state"] for file in report["files"]}


# Names and sizes


def test_the_known_models_are_listed_with_size_and_licence(place: Place):
    out, _ = place.run("--model")
    listed = place.json("--model")

    assert [line.split()[0] for line in out.splitlines()[1:4]] == [one["model"] for one in listed]
    assert [one["model"] for one in listed] == [
        "all-MiniLM-L6-v2", "multilingual-e5-small", "bge-small-en-v1.5",
    ]  # fmt: skip
    assert [(one["license"], one["isHashed"]) for one in listed] == [
        ("Apache-2.0", True), ("MIT", False), ("MIT", True),
    ]  # fmt: skip
    assert out.splitlines()[-1].endswith("embed --model NAME")


def test_what_was_hashed_stays_as_it_was_hashed():
    """Of the files that the embedder read; another digest is of another file."""
    found = {
        (model.name, file.name): (file.size, file.digest[:12])
        for model in MODELS
        for file in model.files
        if file.digest
    }
    assert found == {
        ("all-MiniLM-L6-v2", "model.onnx"): (22_972_370, "afdb6f1a0e45"),
        ("all-MiniLM-L6-v2", "tokenizer.json"): (711_661, "da0e79933b9e"),
        ("bge-small-en-v1.5", "model.onnx"): (34_014_426, "6c9c6101a956"),
        ("bge-small-en-v1.5", "tokenizer.json"): (711_396, "d241a60d5e8f"),
    }
    assert {model.dimension for model in MODELS} == {384}


def test_digests_and_sizes_are_whole_or_absent():
    for model in MODELS:
        for file in model.files:
            assert bool(file.digest) is bool(file.size)
            assert len(file.digest) in (0, 64)
        if model.is_hashed:
            assert model.megabytes == round(sum(file.size for file in model.files) / 1e6)
        assert model.home.startswith("https://")


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("all-MiniLM-L6-v2", (Pooling.MEAN, 256, "", "")),
        ("multilingual-e5-small", (Pooling.MEAN, 512, "passage:", "query:")),
        ("bge-small-en-v1.5",
         (Pooling.FIRST, 512, "", "Represent this sentence for searching relevant passages:")),
    ],
)  # fmt: skip
def test_the_files_that_are_written_say_how_a_model_is_used(
    tmp_path: Path, name: str, facts: tuple[object, ...]
):
    [model] = [model for model in MODELS if model.name == name]
    for file in model.files:
        (tmp_path / file.name).write_bytes(b"")
    for written, content in model.config_files():
        (tmp_path / written).parent.mkdir(exist_ok=True)
        (tmp_path / written).write_bytes(content)

    found = ModelFolder.of(tmp_path)

    assert (found.pooling, found.tokens, found.text, found.query) == facts


def test_a_model_is_shown_with_its_files_and_where_they_belong(
    place: Place, model: KnownModel, hub: Hub
):
    out, _ = place.run("--model", "small")
    report = place.json("--model", "small")

    assert list(report) == KEYS
    assert out.startswith(
        "small: English, 1 million weights, 4 numbers a vector, 1 MB, licence MIT"
    )
    assert f"folder  {place.folder}\n" in out
    assert f"  missing   model.onnx\n            {hub.url}/m/onnx/small.onnx\n" in out
    assert f"            SHA-256 {model.files[0].digest}\n" in out
    assert (
        '  missing   1_Pooling/config.json\n            {"pooling_mode_cls_token": true}\n' in out
    )
    assert f"embed --model small --download -s EMBEDDING_FOLDER={place.folder}" in out
    assert set(states(report).values()) == {"missing"}
    assert (report["isWhole"], report["folder"]) == (False, str(place.folder))
    assert hub.asked == []
    assert not place.folder.exists()


# Downloads


@pytest.mark.parametrize("given", [{}, {"EMBEDDER": "onnx"}], ids=["plain", "embedder"])
def test_a_download_is_verified_and_then_used(
    place: Place, model: KnownModel, hub: Hub, given: dict[str, str]
):
    report = place.json("--model", "small", "--download", **given)
    again = place.json("--model", "small", "--download")
    out, _ = place.run("--model", "small")

    assert report["downloaded"] == ["model.onnx", "tokenizer.json", "1_Pooling/config.json"]
    assert (report["isWhole"], set(states(report).values())) == (True, {"verified"})
    assert (again["downloaded"], again["isWhole"]) == ([], True)
    assert hub.asked == ["/m/onnx/small.onnx", "/m/tokenizer.json"]
    assert f"embed -s EMBEDDER=onnx -s EMBEDDING_FOLDER={place.folder}" in out
    assert OnnxEmbedder(place.folder).dimension == 4
    found = [file for file in place.folder.rglob("*") if file.is_file()]
    assert len(found) == 3, "no part of a download is left"


def test_the_setting_names_the_folder(place: Place, model: KnownModel, tmp_path: Path):
    folder = tmp_path / "elsewhere"
    report = place.json("--model", "small", "--download", EMBEDDING_FOLDER=str(folder))

    assert (report["folder"], report["isWhole"]) == (str(folder), True)
    assert (folder / "model.onnx").is_file()


def test_a_dry_run_downloads_nothing(place: Place, model: KnownModel, hub: Hub):
    report = place.json("--model", "small", "--download", "--dry-run")

    assert (report["downloaded"], report["isWhole"], hub.asked) == ([], False, [])
    assert not place.folder.exists()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(place: Place, model: KnownModel, hub: Hub, status: int):
    hub.moves = status
    hub.files["/cdn/1"] = hub.files["/m/onnx/small.onnx"]
    hub.files["/m/onnx/small.onnx"] = f"{hub.url}/cdn/0"
    hub.files["/cdn/0"] = "1"

    assert place.json("--model", "small", "--download")["isWhole"]
    assert hub.asked[:3] == ["/m/onnx/small.onnx", "/cdn/0", "/cdn/1"]


@pytest.mark.parametrize("hops", [5, 6])
def test_five_redirects_are_followed(place: Place, model: KnownModel, hub: Hub, hops: int):
    hub.files[f"/m/onnx/{hops}"] = hub.files["/m/onnx/small.onnx"]
    hub.files["/m/onnx/small.onnx"] = "1"
    hub.files |= {f"/m/onnx/{n}": f"{n + 1}" for n in range(1, hops)}

    _, err = place.run("--model", "small", "--download", expect=int(hops > 5))

    assert ("more than 5 redirects" in err) is (hops > 5)


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (b"x", "has other bytes than those that were hashed for this version (SHA-256 2d711642"),
        (None, "cannot be downloaded: status 404"),
        ("small.onnx", "cannot be downloaded: more than 5 redirects"),
        ("ftp://127.0.0.1/a", "cannot be downloaded: a redirect leads away from https"),
        (b"x" * 100_000, "cannot be downloaded: "),
        ("http://169.254.169.254/a", "cannot be downloaded: "),
    ],
    ids=["other bytes", "missing", "circle", "other scheme", "too large", "refused host"],
)
def test_what_does_not_come_as_it_was_hashed_is_not_kept(
    place: Place, model: KnownModel, hub: Hub, there: bytes | str | None, message: str
):
    hub.files["/m/onnx/small.onnx"] = there  # type: ignore[assignment]  # None: 404

    _, err = place.run("--model", "small", "--download", expect=1)

    assert f"embed: {hub.url}/m/onnx/small.onnx {message}" in err
    assert not any(file.is_file() for file in place.folder.rglob("*"))


def test_another_model_in_the_folder_stays(place: Place, model: KnownModel, hub: Hub):
    place.folder.mkdir(parents=True)
    (place.folder / "model.onnx").write_text("mine")

    _, err = place.run("--model", "small", "--download", expect=1)

    assert f"embed: {place.folder} has another model.onnx than small: remove it, or name" in err
    assert (place.folder / "model.onnx").read_text() == "mine"
    assert states(place.json("--model", "small"))["model.onnx"] == "other"
    assert not place.json("--model", "small")["isWhole"]
    assert hub.asked == []


def test_a_small_file_of_the_users_stays(place: Place, model: KnownModel):
    (place.folder / "1_Pooling").mkdir(parents=True)
    own = place.folder / "1_Pooling/config.json"
    own.write_text('{"pooling_mode_mean_tokens": true}')

    report = place.json("--model", "small", "--download")

    assert states(report)["1_Pooling/config.json"] == "unknown"
    assert report["isWhole"]
    assert own.read_text() == '{"pooling_mode_mean_tokens": true}'


def test_a_folder_that_cannot_be_written_is_an_error(place: Place, model: KnownModel):
    place.folder.parent.mkdir(parents=True)
    place.folder.write_text("a file")

    _, err = place.run("--model", "small", "--download", expect=1)

    assert f"embed: {place.folder}/model.onnx cannot be written: " in err


def test_a_model_that_was_not_hashed_is_not_downloaded(
    place: Place, model: KnownModel, hub: Hub, monkeypatch: pytest.MonkeyPatch
):
    files = (KnownFile("model.onnx", "a.onnx"), KnownFile("tokenizer.json", "t.json"))
    bare = KnownModel(
        name="small", languages="English", weights=1, dimension=4, megabytes=1, license="MIT",
        home=model.home, files=files,
    )  # fmt: skip
    monkeypatch.setattr(embed, "_MODELS", {"small": bare})

    _, err = place.run("--model", "small", "--download", expect=1)
    out, _ = place.run("--model", "small")

    assert "small is not downloaded, because its files were not hashed for this version" in err
    assert f"take a.onnx and t.json from {hub.url}/m/, and put them in {place.folder}" in err
    assert "SHA-256 not known: the file was not hashed" in out
    assert ", about 1 MB, " in out
    assert "put its files in the folder by hand" in out
    assert hub.asked == []
    for file in files:
        place.folder.mkdir(parents=True, exist_ok=True)
        (place.folder / file.name).write_text("x")
    report = place.json("--model", "small")
    assert set(states(report).values()) == {FileState.UNKNOWN}
    assert report["isWhole"]


# Wrong usage


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--download"], "--download needs --model NAME, one of all-MiniLM-L6-v2, "),
        (["--model", "--download"], "--model takes one name, one of all-MiniLM-L6-v2, "),
        (["--model", "a", "b"], "--model takes one name, one of "),
        (["--model", "BERT"], "no model is called 'BERT'; known: all-MiniLM-L6-v2, "),
        (["--model", "all-MiniLM-L6-v2", "--anew"], "leave --source, --anew and --refused out"),
        (["--model", "all-MiniLM-L6-v2", "--source", "a"], "--model makes no vectors"),
        (["--model", "--refused"], "--model makes no vectors"),
    ],
)
def test_wrong_usage_names_the_remedy(place: Place, words: list[str], message: str):
    with pytest.raises(UsageError) as caught:
        place.run(*words)
    assert message in str(caught.value)
