"""Applications without a framework, each of which asks its data in another way."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from tests.crawls.apps import ANY_ORIGIN, DATA, DATA_ORIGIN, OTHER, App, AppSite, by_history, shell
from tests.site_server import Page

#: Shows menu and text; `read` brings the data of a name, null where there is none.
SHOW = """
const name = location.pathname === '/' ? 'home' : location.pathname.slice(1);
const json = (url, more) => fetch(url, more).then(answer => answer.ok ? answer.json() : null);
const link = item => `<a href="${item.path}">${item.name}</a>`;
READ
Promise.all([read('menu'), read(name)]).then(([menu, found]) => {
  const none = 'Nothing is here any more under this address. Please begin at the home page.';
  const page = found || {title: 'Not found', text: none};
  document.title = page.title;
  document.getElementById('app').innerHTML = `<nav>${(menu || []).map(link).join(' ')}</nav>
    <main><h1>${page.title}</h1><p>${page.text}</p></main>`;
});
"""
FROM_FILES = "const read = name => json(`/api/${name}.json`);"


def _app(read: str, names: Sequence[str]) -> App:
    files = {"/app.js": SHOW.replace("READ", read)}
    return App(AppSite(), by_history(names), files, shell=shell("/app.js"))


def cross_origin(names: Sequence[str]) -> App:
    """Its data is on another site, which the source declares."""
    app = _app(f"const read = name => json(`{DATA_ORIGIN}/api/${{name}}.json`);", names)
    return replace(app, data_site=AppSite(), keys=f'{app.keys}data_hosts = ["{OTHER}"]\n')


def timed(names: Sequence[str]) -> App:
    """Each request has the time as a parameter, so that no cache answers it."""
    return _app("const read = name => json(`/api/${name}.json?_=${Date.now()}`);", names)


@dataclass
class Volatile(App):
    """Each answer says when it was made."""

    _clock: "count[int]" = field(default_factory=count)

    def put(self, path: str, text: str) -> None:
        """Publish data that is made when it is asked for."""
        found = json.loads(text)

        def made() -> Page:
            answer = {"found": found, "generatedAt": next(self._clock)}
            return Page(json.dumps(answer), content_type=DATA)

        self.site.made[path] = made

    def drop(self, name: str) -> None:
        """Remove the data of a page."""
        del self.site.made[self.data(name)]


def volatile(names: Sequence[str]) -> App:
    """Its data says when it was made."""
    read = "const read = name => json(`/api/${name}.json`).then(answer => answer && answer.found);"
    files = {"/app.js": SHOW.replace("READ", read)}
    return Volatile(AppSite(), by_history(names), files, shell=shell("/app.js"))


@dataclass
class GraphQL(App):
    """One address answers all questions, which are posted."""

    _held: dict[str, object] = field(default_factory=dict)

    def publish(self) -> None:
        """Publish all pages."""
        self.site.made["/graphql"] = self._answer
        super().publish()

    def put(self, path: str, text: str) -> None:
        """Publish data under its name."""
        self._held[path] = json.loads(text)

    def drop(self, name: str) -> None:
        """Remove the data of a page."""
        del self._held[self.data(name)]

    def _answer(self) -> Page:
        if not self.site.posted:
            return Page("no question", status=400)
        name = json.loads(self.site.posted)["variables"]["name"]
        found = self._held.get(f"/api/{name}.json")
        return Page(json.dumps({"data": {"page": found}}), content_type=DATA, headers=ANY_ORIGIN)


def graphql(names: Sequence[str]) -> App:
    """Its data is asked by POST, which the source declares as reading."""
    read = """
const query = 'query ($name: String!) { page(name: $name) { title text } }';
const asked = name => ({method: 'POST', headers: {'Content-Type': 'application/json'},
                        body: JSON.stringify({query, variables: {name}})});
const read = name => json('/graphql', asked(name)).then(answer => answer && answer.data.page);
"""
    files = {"/app.js": SHOW.replace("READ", read)}
    keys = "render = \"always\"\ndata_posts = ['/graphql$']\n"
    return GraphQL(AppSite(), by_history(names), files, shell=shell("/app.js"), keys=keys)


def posting(names: Sequence[str]) -> App:
    """Its pages ask what others say of them by a POST that is not declared, and show without it."""
    return _app(
        FROM_FILES + "\njson('/remarks', {method: 'POST', body: name}).catch(() => null);", names
    )


_STEP = 4  #: entries of a list that come at once
SCROLLED = """
let next = 1;
const list = document.createElement('ul'), end = document.createElement('p');
const more = () => json(`/api/list.json?page=${next}`).then(items => {
  if (!items) return;
  next += 1;
  list.insertAdjacentHTML('beforeend', items.map(item => `<li>${link(item)}</li>`).join(''));
});
const read = name => name === 'menu' ? null : json(`/api/${name}.json`);
if (name === 'home') {
  end.style.marginTop = '3000px';
  document.body.append(list, end);
  new IntersectionObserver(([seen]) => seen.isIntersecting && more()).observe(end);
  more();
}
"""


class Scrolled(App):
    """The home page has a list that goes on when it is scrolled; the others have no menu."""

    def lead_to(self, names: Sequence[str]) -> None:
        """Have the list lead to these pages."""
        pages = self.site.pages
        for path in [path for path in pages if path.startswith("/api/list.json")]:
            del pages[path]
        entries = [{"name": name, "path": self.paths[name]} for name in names]
        for number, begin in enumerate(range(0, len(entries), _STEP), 1):
            text = json.dumps(entries[begin : begin + _STEP])
            self.put(f"/api/list.json?page={number}", text)


def scrolled(names: Sequence[str]) -> App:
    """A list that loads more when its end is seen."""
    files = {"/app.js": SHOW.replace("READ", SCROLLED)}
    keys = 'render = "always"\nrender_scroll = 10\n'
    return Scrolled(AppSite(), by_history(names), files, shell=shell("/app.js"), keys=keys)
