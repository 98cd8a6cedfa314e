"""``smartcrawl embed``: make the vectors that chunks have not, out of the registry."""

from __future__ import annotations

import shlex
import ssl
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urljoin

from smartcrawl.index import audit
from smartcrawl.index.choice import index_writer_of_registry
from smartcrawl.index.debts import PaidDebts, pay_embedded_index_debts, remote_index_debts
from smartcrawl.index.embedded.vectors import (
    count_index_texts_to_embed,
    forget_index_vectors,
    index_embedder_number,
    prepare_index_for_vectors,
)
from smartcrawl.index.embedding.choice import open_embedder
from smartcrawl.index.embedding.known_models import (
    MODELS,
    FileState,
    KnownFile,
    KnownModel,
    download_model,
)
from smartcrawl.index.embedding.ports import Embedder, RefusedText
from smartcrawl.model.exceptions import EmbedderError, UsageError
from smartcrawl.model.openai_server import whole_path
from smartcrawl.model.program import program_name
from smartcrawl.model.redaction import redacted_line
from smartcrawl.model.settings_table import setting_value
from smartcrawl.registry.chunks import refused_chunk_counts
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.sources.web_client import WebClient
from smartcrawl.terminal.command import FAILED, WITHHELD, ChangingCommand, print_json
from smartcrawl.terminal.output import print_complaint, print_note, printed
from smartcrawl.terminal.tables import (
    print_table,
    printed_number_column,
    printed_word_column,
)

_MODELS: Final = {model.name: model for model in MODELS}
_CONNECT_SECONDS: Final = 30.0  #: for each address of a host
_HARMLESS: Final = "text"  #: a text that every model embeds


class Command(ChangingCommand):
    """Embed the chunks that have no vector."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[--source S | --anew] [--refused] [--dry-run]  |  --model [NAME] [--download]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Make the missing vectors of stored pages with the embedder that the setting "
            "EMBEDDER names. The text comes from the registry. Searches use vectors once "
            "every chunk has one. It may run while a source is being crawled. Exit "
            "status: 0 every chunk has its vector, 1 not carried out, 3 some have none "
            "yet. With --model it names sentence models for EMBEDDER=onnx, and needs no "
            "registry."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--refused",
            action="store_true",
            help="try the texts that were refused before once more",
        )
        parser.add_argument(
            "--anew",
            action="store_true",
            help="drop the vectors of EMBEDDER and make all of them anew, as for another model",
        )
        parser.add_argument(
            "--model",
            nargs="?",
            const="",
            metavar="NAME",
            help="show a known sentence model, its licence and its files; without NAME: list them",
        )
        parser.add_argument(
            "--download",
            action="store_true",
            help="with --model: download its missing files, each verified by its SHA-256",
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Make vectors, or show a model."""
        if opts.model is None:
            if opts.download:
                raise UsageError(f"--download needs --model NAME, one of {', '.join(_MODELS)}")
            super().run(args, opts)
            return
        if opts.source or opts.anew or opts.refused:
            raise UsageError("--model makes no vectors: leave --source, --anew and --refused out")
        if args or (opts.download and not opts.model):
            raise UsageError(f"--model takes one name, one of {', '.join(_MODELS)}")
        if opts.model and opts.model not in _MODELS:
            name = redacted_line(opts.model)
            raise UsageError(f"no model is called {name!r}; known: {', '.join(_MODELS)}")
        with self.complaining(), printed():
            if opts.model:
                self._show(_MODELS[opts.model], opts)
            else:
                _list_models(opts.format)

    def _show(self, model: KnownModel, opts: Namespace) -> None:
        """Print a model and its files; with --download they are there afterwards."""
        folder = setting_value(self.settings, "EMBEDDING_FOLDER")
        if folder is None:
            folder = whole_path(setting_value(self.settings, "DATA_DIR")) / "models" / model.name
        downloaded = []
        if opts.download and not opts.dry_run:
            guard = ConnectionGuard(
                setting_value(self.settings, "ALLOW_NETWORKS"),
                setting_value(self.settings, "ALLOW_PORTS"),
            )
            tls = ssl.create_default_context()
            if (authorities := setting_value(self.settings, "CA_FILE")) is not None:
                tls.load_verify_locations(cafile=authorities)
            web = WebClient(guard, tls=tls, connect_seconds=_CONNECT_SECONDS)
            downloaded = download_model(model, folder, web, self._downloading)
        states = model.states(folder)
        facts = known_model_as_data(model) | {
            "folder": str(folder),
            "isWhole": not {FileState.MISSING, FileState.OTHER} & set(states.values()),
            "files": model_files_as_data(model, states),
            "downloaded": downloaded,
        }
        if opts.format == "json":
            print_json(facts)
        else:
            _print_model(model, facts)

    def _downloading(self, file: KnownFile) -> None:
        print_complaint(self.name, f"downloading {file.name}, {file.size / 1e6:.1f} MB")

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Embed, or count what would be embedded."""
        embedder = open_embedder(self.options)
        if embedder is None:
            raise UsageError(
                "no embedder: set EMBEDDER to local, onnx or openai (docs/vectors.md)",
            )
        if opts.anew and sources:
            raise UsageError("--anew rebuilds the vectors of all sources: leave --source out")
        names = []
        if self.options.elasticsearch is not None:  # a later claim would win over those of a run
            names = [name for _, name in audit.audited_sources(connection, sources)]
        with (
            closing(embedder),
            self.leased(names),
            closing(index_writer_of_registry(self.options, connection)) as indexing,
        ):
            elsewhere = remote_index_debts(indexing)
            number = index_embedder_number(connection, embedder) or 0
            owed = count_index_texts_to_embed(connection, 0 if opts.anew else number, sources)
            if elsewhere is not None:
                owed += elsewhere.count_unknown(connection, number)
            if opts.refused and not opts.anew:
                refused = refused_chunk_counts(connection, number, sources)
                owed += sum(one.number for one in refused)
            if self.dry:
                self._print(embedder, PaidDebts(owed=owed), opts)
                return
            prepare_index_for_vectors(self.database)
            if embedder.destination and owed:
                print_complaint(
                    self.name,
                    f"the text of {report_noun(owed, 'chunk')} is sent to "
                    f"{embedder.destination}, model {embedder.model}",
                )
            if opts.anew:
                _forget(connection, embedder, number)
            with self.meter(owed) as meter:
                paid = pay_embedded_index_debts(
                    connection,
                    embedder,
                    sources=sources,
                    now=int(time.time()),
                    ttl=self.options.undo_ttl,
                    report=partial(meter.report, "embedded"),
                    elsewhere=elsewhere,
                    refused_too=opts.refused and not opts.anew,
                )
        if paid.error is not None:
            print_complaint(self.name, str(paid.error))
        if paid.owed:
            is_failed = paid.error is not None or paid.unanswered > 0
            self.exitcode = FAILED if is_failed and not paid.embedded else WITHHELD
        self._print(embedder, paid, opts)

    def _print(self, embedder: Embedder, paid: PaidDebts, opts: Namespace) -> None:
        facts: dict[str, object] = {
            "embedder": embedder.name,
            "model": embedder.model,
            "dimension": embedder.dimension,
            "embedded": paid.embedded,
            "refused": paid.refused,
            "owed": paid.owed,
            "dropped": paid.dropped,
            "error": None if paid.error is None else str(paid.error),
            "reasons": [{"url": url, "reason": reason} for url, reason in paid.reasons],
        }
        if opts.format == "json":
            print_json(facts)
            return
        verb = "would be embedded" if self.dry else "embedded"
        number = paid.owed if self.dry else paid.embedded
        parts = [f"{report_noun(number, 'chunk')} {verb}"]
        if paid.refused:
            parts.append(f"{report_noun(paid.refused, 'text')} refused")
        if paid.owed and not self.dry:
            parts.append(f"{report_noun(paid.owed, 'chunk')} still without a vector")
        sys.stdout.write(f"{', '.join(parts)} ({embedder.name}, {embedder.model})\n")
        for url, reason in paid.reasons:
            sys.stdout.write(f"  {url}: {reason}\n")
        if (more := paid.refused + paid.unanswered - len(paid.reasons)) > 0:
            sys.stdout.write(f"  and {more:,} more\n")


def _forget(connection: Connection, embedder: Embedder, number: int) -> None:
    """Drop the vectors of an embedder, once it has made one.

    Raises:
        EmbedderError: it makes none now, and the former ones stay.
    """
    (found,) = embedder.embed([_HARMLESS])
    if isinstance(found, RefusedText):
        raise EmbedderError(
            f"the embedder refuses every text ({found.reason}); the stored vectors stay",
            lasting=True,
        )
    with transaction(connection):
        forget_index_vectors(connection, number)


def known_model_as_data(model: KnownModel) -> dict[str, object]:
    """Return the files, size and licence of a model, under the keys of ``embed --model``."""
    return {
        "model": model.name,
        "languages": model.languages,
        "weights": model.weights * 1_000_000,
        "dimension": model.dimension,
        "bytes": sum(file.size for file in model.files) or model.megabytes * 1_000_000,
        "license": model.license,
        "home": model.home,
        "isHashed": model.is_hashed,
    }


def model_files_as_data(
    model: KnownModel, states: Mapping[str, FileState]
) -> list[dict[str, object]]:
    """Return the files of a model and what its folder has of them."""
    rows: list[dict[str, object]] = [
        {"name": file.name, "url": urljoin(model.home, file.source), "bytes": file.size or None,
         "sha256": file.digest or None, "content": None}
        for file in model.files
    ]  # fmt: skip
    for name, content in model.config_files():
        digest, text = sha256(content).hexdigest(), content.decode().strip()
        rows.append(
            {"name": name, "url": None, "bytes": len(content), "sha256": digest, "content": text}
        )
    return [row | {"state": states[str(row["name"])].value} for row in rows]


def _list_models(form: str) -> None:
    listed = [known_model_as_data(model) for model in _MODELS.values()]
    if form == "json":
        print_json(listed)
        return
    rows = [
        {
            "model": model.name,
            "languages": model.languages,
            "MB": model.megabytes,
            "numbers": model.dimension,
            "licence": model.license,
            "download": "verified" if model.is_hashed else "by hand",
        }
        for model in _MODELS.values()
    ]
    words, numbers = printed_word_column, printed_number_column
    print_table(
        (words("model"), words("languages"), numbers("MB"), numbers("numbers"), words("licence"),
         words("download")),
        rows,
    )  # fmt: skip
    print_note("show one, with its files:", command=f"{program_name()} embed --model NAME")


def _print_model(model: KnownModel, facts: Mapping[str, Any]) -> None:
    is_hashed, folder = model.is_hashed, shlex.quote(facts["folder"])
    size = f"{model.megabytes} MB" if is_hashed else f"about {model.megabytes} MB"
    lines = [
        f"{model.name}: {model.languages}, {model.weights} million weights, {model.dimension}"
        f" numbers a vector, {size}, licence {model.license}",
        f"folder  {facts['folder']}",
    ]
    for row in facts["files"]:
        lines.append(f"  {row['state']:8}  {row['name']}")
        whence = [row["url"], f"SHA-256 {row['sha256'] or 'not known: the file was not hashed'}"]
        lines += [f"{'':12}{line}" for line in (whence if row["url"] else [row["content"]])]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    if facts["isWhole"]:
        settings = f"-s EMBEDDER=onnx -s EMBEDDING_FOLDER={folder}"
        print_note("make vectors with it:", command=f"{program_name()} embed {settings}")
    elif is_hashed:
        line = f"embed --model {model.name} --download -s EMBEDDING_FOLDER={folder}"
        print_note("download what is missing:", command=f"{program_name()} {line}")
    else:
        print_note("put its files in the folder by hand, under the names above")
