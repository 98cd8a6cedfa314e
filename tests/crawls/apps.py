"""Sites that scripts write, as frameworks of today build them: each with a home page and two more.

The frameworks themselves are packages of npm (``tests/npm.py``); what is ours is as short as such
an application can be. An `App` publishes, edits and removes its pages.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.npm import npm_package
from tests.servers import UnavailableError
from tests.servers.cache import absent
from tests.site_server import Page, Site

SCRIPT, DATA = "text/javascript", "application/json"
WORDS = " ".join(f"word{number} of a text that scripts write into the page" for number in range(9))
NAMES = ("home", "one", "two")


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
        super().__init__()
        self.made: dict[str, Callable[[bytes], Page]] = {}  #: by path, from the posted body

    def _page(self, path: str) -> Page | None:
        make = self.made.get(path.partition("?")[0])
        return make(self.posted) if make is not None else super()._page(path)


@dataclass
class App:
    """One site: the paths of its pages, and what it publishes."""

    site: AppSite
    #: Address of each page, without the host.
    paths: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)  #: scripts and markup by path
    data: Callable[[str], str] = lambda name: f"/api/{name}.json"
    shells: tuple[str, ...] = ("/",)  #: paths that are the same document
    shell: str = ""
    keys: str = ""  #: of the source
    menu: str = "/api/menu.json"
    as_data: Callable[[str, str], str] = lambda name, text: json.dumps(
        {"title": name, "text": text}
    )

    def publish(self) -> None:
        """Publish all pages."""
        pages = self.site.pages
        pages |= dict.fromkeys(self.shells, self.shell)
        for path, body in self.files.items():
            pages[path] = Page(body, content_type=SCRIPT if path.endswith(".js") else "text/plain")
        for name in NAMES:
            self.write(name, text_of(name))
        self.lead_to(NAMES)

    def write(self, name: str, text: str) -> None:
        """Give a page its text."""
        self.site.pages[self.data(name)] = Page(self.as_data(name, text), content_type=DATA)

    def lead_to(self, names: tuple[str, ...]) -> None:
        """Have the menu lead to these pages."""
        entries = [{"name": name, "path": self.paths[name]} for name in names]
        self.site.pages[self.menu] = Page(json.dumps(entries), content_type=DATA)

    def remove(self, name: str) -> None:
        """Remove a page, and the link to it."""
        del self.site.pages[self.data(name)]
        self.lead_to(tuple(other for other in NAMES if other != name))


def _shell(*scripts: str, root: str = "app") -> str:
    tags = "".join(f'<script src="{script}"></script>' for script in scripts)
    return f'<!doctype html><html lang="en"><title>App</title><div id="{root}"></div>{tags}</html>'


HISTORY = dict(zip(NAMES, ("/", "/one", "/two"), strict=True))
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


def react() -> App:
    """React with history routes."""
    files = {
        "/react.js": library("react", "18.3.1", "umd/react.production.min.js"),
        "/react-dom.js": library("react-dom", "18.3.1", "umd/react-dom.production.min.js"),
        "/app.js": REACT,
    }
    shells = tuple(HISTORY.values())
    return App(AppSite(), HISTORY, files, shells=shells, shell=_shell(*files))


HASHES = dict(zip(NAMES, ("/", "/#/one", "/#/two"), strict=True))
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


def vue() -> App:
    """Vue with hash routes."""
    files = {
        "/vue.js": library("vue", "3.5.13", "dist/vue.global.prod.js"),
        "/router.js": library("vue-router", "4.5.0", "dist/vue-router.global.prod.js"),
        "/app.js": VUE,
    }
    return App(AppSite(), HASHES, files, shell=_shell(*files), keys="render_hash_routes = true\n")
