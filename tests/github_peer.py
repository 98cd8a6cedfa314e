"""A server that answers as GitHub does, out of real bare git repositories.

with GithubPeer(tmp_path) as peer:
    docs = peer.repository("octo/docs")
    docs.write("a.md", "# A")
    docs.commit()
    crawl(peer.web("octo/docs"), settings=peer.settings)
    peer.asked("api")            # statuses and paths of the requests so far
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote_to_bytes, urlsplit

_DOCS = "https://docs.github.com/rest"
_GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
}


def git(folder: Path, *words: str | bytes, check: bool = True) -> bytes:
    """Run git in a folder; return its output, empty after an error that is not checked."""
    result = subprocess.run(
        [b"git", *(os.fsencode(word) for word in words)],
        cwd=folder,
        env=os.environ | _GIT,
        capture_output=True,
        check=False,
    )
    if check and result.returncode:
        raise AssertionError(f"git {words}: {result.stderr.decode(errors='replace')}")
    return b"" if result.returncode else result.stdout


class Repository:
    """A bare repository, and a clone in which files are edited and pushed."""

    def __init__(self, folder: Path, id_: int) -> None:
        self.id = id_
        self.bare = folder / f"{id_}.git"
        self.work = folder / f"{id_}.work"
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.bare))
        git(folder, "init", "-q", "-b", "main", str(self.work))
        self.private = False
        self.wiki: dict[str, str] = {}  #: HTML by the name of the page; its front is Home

    def write(self, path: str, text: str | bytes) -> None:
        """Write a file, and the folders above it."""
        file = self.work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def remove(self, path: str) -> None:
        """Remove a file or a folder."""
        file = self.work / path
        if file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink()

    def move(self, old: str, new: str) -> None:
        """Rename a file or a folder."""
        (self.work / new).parent.mkdir(parents=True, exist_ok=True)
        git(self.work, "mv", old, new)

    def submodule(self, path: str) -> None:
        """Add the entry of a submodule, whose folder is empty in a clone."""
        (self.work / path).mkdir(parents=True)
        git(self.work, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{path}")

    def switch(self, branch: str) -> None:
        """Go to a branch, which begins at this commit if it is new."""
        known = git(self.work, "rev-parse", "-q", "--verify", f"refs/heads/{branch}", check=False)
        git(self.work, "switch", "-q", *([] if known else ["-c"]), branch)

    def commit(self, message: str = "Edit", *, amend: bool = False) -> str:
        """Commit all edits and push, with force; return the SHA of the commit."""
        git(self.work, "add", "-A", "--ignore-errors")
        more = ["--amend"] if amend else []
        git(self.work, "commit", "-q", "--allow-empty", "-m", message, *more)
        git(self.work, "push", "-q", "--force", str(self.bare), "HEAD")
        return self.sha("HEAD")

    def sha(self, name: str) -> str:
        """Return the SHA of an object of the clone."""
        return git(self.work, "rev-parse", name).decode().strip()


@dataclass(frozen=True)
class Asked:
    """One request, and the status of its answer."""

    place: str  #: api, raw or web
    path: str  #: below the place, with the query
    status: int
    headers: dict[str, str] = field(repr=False)


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class GithubPeer:
    """The API, the raw files and the wikis of some repositories, on one loopback port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "github"
        self.folder.mkdir(parents=True)
        self.repositories: dict[str, Repository] = {}  #: by OWNER/REPO
        self.moved: dict[str, str] = {}  #: former OWNER/REPO to the present one
        self.token: str | None = None  #: the only one that is right
        self.quota = 5_000  #: requests to the API that are left
        self.reset_in = 3_600  #: seconds until the quota is whole again
        self.most_items = 100_000  #: items of a tree that is not truncated
        self.wiki_headers: dict[str, str] = {}  #: of each page of a wiki, beside its own
        self.robots = "User-agent: *\nDisallow: /*/*/commits/\n"  #: robots.txt of the web pages
        #: Called with place and path before anything else; what it returns is the answer.
        self.intercept: Callable[[str, str], Answer | None] = lambda place, path: None
        self.log: list[Asked] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        self.api, self.raw = f"{self.origin}/api/v3", f"{self.origin}/raw"

    def quota_wait(self, waits: list[float]) -> Callable[[float], bool]:
        """Return a pause that takes no time: it records its seconds, and renews the quota."""

        def wait(seconds: float) -> bool:
            waits.append(seconds)
            self.quota = 10
            return False

        return wait

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def repository(self, name: str) -> Repository:
        """Make an empty repository."""
        found = Repository(self.folder, len(self.repositories) + 1)
        self.repositories[name] = found
        return found

    def rename(self, old: str, new: str) -> None:
        """Rename a repository; the API redirects from its former name."""
        self.repositories[new] = self.repositories.pop(old)
        self.moved[old] = new

    def web(self, rest: str) -> str:
        """Return an address of the web pages of GitHub, which this peer does not answer."""
        return f"https://github.com/{rest}"

    @property
    def web_settings(self) -> dict[str, str]:
        """The settings of a crawl that asks this peer for wikis, too."""
        return self.settings | {"GITHUB_WEB_URL": self.origin}

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a crawl that asks this peer."""
        return {
            "GITHUB_API_URL": self.api,
            "GITHUB_RAW_URL": self.raw,
            "ALLOW_NETWORKS": "127.0.0.0/8",
        }

    def asked(self, place: str) -> list[tuple[int, str]]:
        """Return status and path of the requests to a place, in their order."""
        return [(asked.status, asked.path) for asked in self.log if asked.place == place]

    # Answers

    def answer(self, target: str, headers: dict[str, str]) -> Answer:
        """Return the answer to a GET, and log it."""
        parts = urlsplit(target)
        for place, prefix in (("api", "/api/v3"), ("raw", "/raw")):
            if parts.path.startswith(f"{prefix}/"):
                path = parts.path.removeprefix(prefix)
                found = self.intercept(place, path)
                if found is None:
                    names = [unquote_to_bytes(name) for name in path.strip("/").split("/")]
                    work = self._api if place == "api" else self._raw
                    found = work(names, parse_qs(parts.query), headers)
                asked = target.removeprefix(prefix)
                self.log.append(Asked(place, asked, found.status, headers))
                return found
        found = self.intercept("web", parts.path)
        found = self._web(parts.path, headers) if found is None else found
        self.log.append(Asked("web", target, found.status, headers))
        return found

    def _web(self, path: str, headers: dict[str, str]) -> Answer:
        """Return robots.txt, or a page of a wiki; as GitHub, ignore the token."""
        if path == "/robots.txt":
            return self._tagged(self.robots.encode(), "text/plain", headers)
        owner, name, *rest = [*path.strip("/").split("/"), "", ""][:5]
        front = f"/{owner}/{name}"
        found = self.repositories.get(front.strip("/"))
        if found is None or found.private or rest[:1] != ["wiki"]:
            return Answer(404, b"<title>Page not found</title>", {"Content-Type": "text/html"})
        page = rest[1] or "Home"
        if not found.wiki:
            return Answer(302, b"", {"Location": f"{self.origin}{front}"})
        if page not in found.wiki:
            return Answer(302, b"", {"Location": f"{self.origin}{front}/wiki"})
        functions = ("_new", f"{page}/_history", f"{page}/_edit", f"{page}/{'a' * 40}", "_pages")
        links = [front, f"{front}/issues", f"{front}/blob/HEAD/top.md", "/login"]
        links += [f"{front}/wiki/{function}" for function in functions]
        around = "".join(f'<a href="{link}">.</a>' for link in links)
        body = f"<title>{page}</title><nav>{around}</nav><main>{found.wiki[page]}</main>"
        answer = self._tagged(body.encode(), "text/html; charset=utf-8", headers)
        return Answer(answer.status, answer.body, answer.headers | self.wiki_headers)

    def _tagged(self, body: bytes, media: str, headers: dict[str, str]) -> Answer:
        """Return a body with its ETag; 304 if the client has it."""
        etag = f'W/"{hashlib.sha256(body).hexdigest()}"'
        if headers.get("if-none-match") == etag:
            return Answer(304, b"", {"ETag": etag})
        return Answer(200, body, {"ETag": etag, "Content-Type": media})

    def _knows(self, headers: dict[str, str]) -> bool | None:
        """Whether the token is right; None: there is none."""
        given = headers.get("authorization")
        return None if given is None else given in (f"Bearer {self.token}", f"token {self.token}")

    def _api(
        self, names: list[bytes], query: dict[str, list[str]], headers: dict[str, str]
    ) -> Answer:
        known = self._knows(headers)
        if known is False:
            return self._error(401, "Bad credentials")
        if self.quota <= 0:
            return self._error(403, "API rate limit exceeded", left=0)
        words = [os.fsdecode(name) for name in names]
        if words[0] == "repositories":
            name = next((n for n, r in self.repositories.items() if str(r.id) == words[1]), "")
            rest = words[2:]
        else:
            name, rest = "/".join(words[1:3]), words[3:]
        if name in self.moved:
            id_ = self.repositories[self.moved[name]].id
            tail = "/".join(rest) + ("?" + "&".join(f"{k}={v[0]}" for k, v in query.items()))
            url = f"{self.api}/repositories/{id_}/{tail}"
            self.quota -= 1
            moved = self._error(301, "Moved Permanently")
            body = json.loads(moved.body) | {"url": url}
            return Answer(301, json.dumps(body).encode(), moved.headers | {"Location": url})
        found = self.repositories.get(name)
        if found is None or (found.private and not known):
            self.quota -= 1
            return self._error(404, "Not Found")
        if rest[:1] == ["commits"]:
            return self._settled(self._commit(name, found, "/".join(rest[1:])), headers)
        if rest[:2] == ["git", "trees"]:
            return self._settled(self._tree(name, found, rest[2], "recursive" in query), headers)
        return self._error(404, "Not Found")

    def _commit(self, name: str, found: Repository, ref: str) -> Answer:
        if not git(found.bare, "rev-list", "-n1", "--all"):
            return self._error(409, "Git Repository is empty.")
        asked = ["rev-parse", "-q", "--verify", "--end-of-options", f"{ref}^{{commit}}"]
        sha = git(found.bare, *asked, check=False).decode().strip()
        if not sha:
            return self._error(422, f"No commit found for SHA: {ref}")
        shown = git(found.bare, "show", "-s", "--format=%T%n%P%n%an%n%ae%n%aI%n%B", sha).decode()
        tree, parents, author, mail, date, message = shown.split("\n", 5)
        url = f"{self.api}/repos/{name}/commits/{sha}"
        person = {"name": author, "email": mail, "date": date}
        payload = {
            "sha": sha,
            "node_id": "C_kwDO",
            "url": url,
            "html_url": self.web(f"{name}/commit/{sha}"),
            "comments_url": f"{url}/comments",
            "commit": {
                "url": f"{self.api}/repos/{name}/git/commits/{sha}",
                "author": person,
                "committer": person,
                "message": message.strip(),
                "comment_count": 0,
                "tree": {"sha": tree, "url": f"{self.api}/repos/{name}/git/trees/{tree}"},
            },
            "author": None,
            "committer": None,
            "parents": [
                {"sha": parent, "url": f"{self.api}/repos/{name}/commits/{parent}"}
                for parent in parents.split()
            ],
            "stats": {"total": 0, "additions": 0, "deletions": 0},
            "files": [],
        }
        return Answer(200, json.dumps(payload).encode())

    def _tree(self, name: str, found: Repository, sha: str, recursive: bool) -> Answer:
        asked = ["rev-parse", "-q", "--verify", "--end-of-options", f"{sha}^{{tree}}"]
        tree = git(found.bare, *asked, check=False).decode().strip()
        if not tree:
            return self._error(404, "Not Found")
        more = ["-r", "-t"] if recursive else []
        lines = git(found.bare, "ls-tree", "-l", "-z", *more, tree).split(b"\0")[:-1]
        items = [self._item(name, line) for line in lines]
        payload = {
            "sha": tree,
            "url": f"{self.api}/repos/{name}/git/trees/{tree}",
            "tree": items[: self.most_items],
            "truncated": len(items) > self.most_items,
        }
        return Answer(200, json.dumps(payload).encode())

    def _item(self, name: str, line: bytes) -> dict[str, Any]:
        facts, _, path = line.partition(b"\t")
        mode, kind, sha, size = facts.decode().split()
        item: dict[str, Any] = {
            "path": path.decode(errors="replace"), "mode": mode, "type": kind, "sha": sha,
        }  # fmt: skip
        if kind != "commit":
            item["url"] = f"{self.api}/repos/{name}/git/{kind}s/{sha}"
        return item | ({"size": int(size)} if kind == "blob" else {})

    def _settled(self, answer: Answer, headers: dict[str, str]) -> Answer:
        """Return an answer of the API with its ETag and quota; 304 if the client has it."""
        etag = f'W/"{hashlib.sha256(answer.body).hexdigest()}"'
        if answer.status == 200 and headers.get("if-none-match") == etag:
            return Answer(304, b"", self._rate() | {"ETag": etag})
        self.quota -= 1
        more = {"ETag": etag} if answer.status == 200 else {}
        return Answer(answer.status, answer.body, self._rate() | more)

    def _error(self, status: int, message: str, left: int | None = None) -> Answer:
        body = {"message": message, "documentation_url": _DOCS, "status": str(status)}
        return Answer(status, json.dumps(body).encode(), self._rate(left))

    def _rate(self, left: int | None = None) -> dict[str, str]:
        remaining = max(self.quota, 0) if left is None else left
        return {
            "Content-Type": "application/json; charset=utf-8",
            "X-RateLimit-Limit": "5000",
            "X-RateLimit-Remaining": str(remaining),
            "X-RateLimit-Reset": str(int(time.time()) + self.reset_in),
            "X-RateLimit-Resource": "core",
        }

    def _raw(
        self, names: list[bytes], query: dict[str, list[str]], headers: dict[str, str]
    ) -> Answer:
        found = self.repositories.get(os.fsdecode(b"/".join(names[:2])))
        if found is None or (found.private and not self._knows(headers)):
            return Answer(404, b"404: Not Found")
        sha, path = names[2], b"/".join(names[3:])
        known = git(found.bare, "cat-file", "-t", sha + b":" + path, check=False)
        if known.strip() != b"blob":
            return Answer(404, b"404: Not Found")
        body = git(found.bare, "cat-file", "blob", sha + b":" + path)
        more = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "max-age=300"}
        more["ETag"] = f'W/"{hashlib.sha256(body).hexdigest()}"'
        if headers.get("if-none-match") == more["ETag"]:
            return Answer(304, b"", more)
        if "gzip" in headers.get("accept-encoding", ""):
            return Answer(200, gzip.compress(body), more | {"Content-Encoding": "gzip"})
        return Answer(200, body, more)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = peer.answer(self.path, headers)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.status != 304:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *words: object) -> None:
                """Write nothing to the terminal."""

        return Handler
