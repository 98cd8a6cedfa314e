"""Sites that scripts write, as frameworks of today build them: each with a home page and two more.

The frameworks themselves are packages of npm (``tests/npm.py``); what is ours is as short as such
an application can be. An `App` publishes, edits and removes its pages.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.npm import npm_package
from tests.servers import UnavailableError
from tests.servers.cache import absent
from tests.site_server import Page, Site

SCRIPT, DATA = "text/javascript", "application/json"
OTHER = "localhost"  #: another name of the host, and so another site
DATA_ORIGIN = "DATA_ORIGIN"  #: in scripts: in the place of the origin that has the data
ANY_ORIGIN = {"Access-Control-Allow-Origin": "*"}
WORDS = " ".join(f"word{number} of a text that scripts write into the page" for number in range(9))
NAMES = ("home", "one", "two")
#: More of them, none of which is part of another's words.
MANY = (
    "home", "one", "two", "anise", "basil", "cumin", "dill", "fennel", "hyssop", "kale", "lovage",
    "mint",
)  # fmt: skip


def text_of(name: str, edition: str = "first") -> str:
    """The text of a page, with words that only this edition of this page has."""
    return f"{edition}{name} {WORDS}"


def library(package: str, version: str, path: str) -> str:
    """A script of a package of npm."""
    found = npm_package(package, version)
    if isinstance(found, UnavailableError):
        absent(f"{package} is not available: {found}")
    return (found.folder / path).read_text()


class AppSite(Site):
    """A site whose answers may be made when they are asked for."""

    def __init__(self) -> None:
        self._of_thread = threading.local()
        super().__init__()
        self.made: dict[str, Callable[[], Page]] = {}  #: by path
        self.shell = ""  #: the document of addresses that name no file

    @property
    def posted(self) -> bytes:
        """The body of the request that this thread answers."""
        found: bytes = getattr(self._of_thread, "posted", b"")
        return found

    @posted.setter
    def posted(self, body: bytes) -> None:
        self._of_thread.posted = body

    def _page(self, path: str) -> Page | None:
        place = path.partition("?")[0]
        make = self.made.get(place)
        found = make() if make is not None else super()._page(path)
        if found is None and self.shell and "." not in place:
            return Page(self.shell)
        return found


@dataclass
class App:
    """One site: the paths of its pages, and what it publishes."""

    site: AppSite
    #: Address of each page, without the host.
    paths: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)  #: scripts and markup by path
    data: Callable[[str], str] = lambda name: f"/api/{name}.json"
    shell: str = ""  #: the document of all pages, or of the first one where routes are behind `#`
    has_history: bool = True  #: whether the shell answers for all paths
    keys: str = 'render = "always"\n'  #: of the source
    menu: str = "/api/menu.json"
    as_data: Callable[[str, str], str] = lambda name, text: json.dumps(
        {"title": name, "text": text}
    )
    as_menu: Callable[[list[tuple[str, str]]], str] = lambda entries: json.dumps(
        [{"name": name, "path": path} for name, path in entries]
    )
    data_site: AppSite | None = None  #: that its data is on; None: its own

    @contextmanager
    def running(self) -> Iterator[AppSite]:
        """Serve it, with all of its pages."""
        with ExitStack() as stack:
            for site in {id(site): site for site in (self.site, self._data_site)}.values():
                stack.enter_context(site)
            self.publish()
            yield self.site

    @property
    def _data_site(self) -> AppSite:
        return self.data_site or self.site

    def publish(self) -> None:
        """Publish all pages."""
        pages = self.site.pages
        if self.has_history:
            self.site.shell = self.shell
        pages |= {"/": self.shell} if self.shell else {}
        for path, body in self.files.items():
            text = body.replace(DATA_ORIGIN, self._data_site.url("").replace("127.0.0.1", OTHER))
            pages[path] = Page(text, content_type=SCRIPT)
        for name in self.paths:
            self.write(name, text_of(name))
        self.lead_to(tuple(self.paths))
        self.build()

    def build(self) -> None:
        """Make the site of what was written; by default they are the same."""

    def write(self, name: str, text: str) -> None:
        """Give a page its text."""
        self.put(self.data(name), self.as_data(name, text))

    def lead_to(self, names: Sequence[str]) -> None:
        """Have the menu lead to these pages."""
        self.put(self.menu, self.as_menu([(name, self.paths[name]) for name in names]))

    def put(self, path: str, text: str) -> None:
        """Publish data."""
        self._data_site.pages[path] = Page(text, content_type=DATA, headers=ANY_ORIGIN)

    def edit(self, name: str, text: str) -> None:
        """Give a page another text."""
        self.write(name, text)
        self.build()

    def remove(self, name: str) -> None:
        """Remove a page, and the link to it."""
        self.drop(name)
        self.lead_to([other for other in self.paths if other != name])
        self.build()

    def drop(self, name: str) -> None:
        """Remove the data of a page."""
        del self._data_site.pages[self.data(name)]


def shell(*scripts: str, root: str = "app") -> str:
    """The document of an application."""
    tags = "".join(f'<script src="{script}"></script>' for script in scripts)
    return f'<!doctype html><html lang="en"><title>App</title><div id="{root}"></div>{tags}</html>'


def by_history(names: Sequence[str]) -> dict[str, str]:
    """The address of each page, the first of which is the home page."""
    return {name: f"/{name}" if place else "/" for place, name in enumerate(names)}


def by_hash(names: Sequence[str]) -> dict[str, str]:
    """Likewise, with all pages in one document."""
    return {name: f"/#/{name}" if place else "/" for place, name in enumerate(names)}


REACT = """
const {createElement: h, useEffect, useState} = React;
const json = url => fetch(url).then(answer => answer.ok ? answer.json() : null);
function Link({path, children}) {
  const go = event => { event.preventDefault(); history.pushState({}, '', path);
                        dispatchEvent(new Event('popstate')) };
  return h('a', {href: path, onClick: go}, children);
}
function App() {
  const [path, setPath] = useState(location.pathname);
  const [menu, setMenu] = useState([]), [page, setPage] = useState(null);
  useEffect(() => addEventListener('popstate', () => setPath(location.pathname)), []);
  useEffect(() => { json('/api/menu.json').then(setMenu) }, []);
  useEffect(() => {
    const name = path === '/' ? 'home' : path.slice(1);
    json(`/api/${name}.json`).then(
      found => setPage(found || {title: "Not found", text: ""})) }, [path]);
  if (!page) return h('p', null, 'Loading');
  return h('div', null,
    h('nav', null, menu.map(item => h(Link, {key: item.path, path: item.path}, item.name))),
    h('main', null, h('h1', null, page.title), h('p', null, page.text)));
}
ReactDOM.createRoot(document.getElementById('app')).render(h(App));
"""


def react(names: Sequence[str] = NAMES) -> App:
    """React with history routes."""
    files = {
        "/react.js": library("react", "18.3.1", "umd/react.production.min.js"),
        "/react-dom.js": library("react-dom", "18.3.1", "umd/react-dom.production.min.js"),
        "/app.js": REACT,
    }
    return App(AppSite(), by_history(names), files, shell=shell(*files))


VUE = """
const {createApp, ref, watch} = Vue, {createRouter, createWebHashHistory, useRoute} = VueRouter;
const json = url => fetch(url).then(answer => answer.ok ? answer.json() : null);
const Page = {
  setup() {
    const route = useRoute(), page = ref({title: 'Loading', text: ''});
    watch(() => route.path, path => json(`/api${path === '/' ? '/home' : path}.json`)
      .then(found => page.value = found || {title: 'Not found', text: ''}), {immediate: true});
    return {page};
  },
  template: '<main><h1>{{ page.title }}</h1><p>{{ page.text }}</p></main>',
};
const App = {
  setup() { const menu = ref([]); json('/api/menu.json').then(found => menu.value = found);
            return {menu} },
  template: `<nav><router-link v-for="item in menu" :key="item.path"
    :to="item.path.replace('/#', '')">{{ item.name }}</router-link></nav><router-view/>`,
};
const routes = [{path: '/:name*', component: Page}];
createApp(App).use(createRouter({history: createWebHashHistory(), routes})).mount('#app');
"""


def vue(names: Sequence[str] = NAMES) -> App:
    """Vue with hash routes."""
    files = {
        "/vue.js": library("vue", "3.5.13", "dist/vue.global.prod.js"),
        "/router.js": library("vue-router", "4.5.0", "dist/vue-router.global.prod.js"),
        "/app.js": VUE,
    }
    keys = 'render = "always"\nrender_hash_routes = true\n'
    return App(AppSite(), by_hash(names), files, shell=shell(*files), has_history=False, keys=keys)
