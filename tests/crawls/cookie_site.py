"""A site whose pages want a cookie that they set themselves, or that is set on the way to them."""

import threading
from typing import NamedTuple

from tests.site_server import Page, Site, html


class Gate(NamedTuple):
    """What a page answers to a request without its cookies."""

    needs: tuple[str, ...]
    sets: str
    to: str
    status: int = 302
    refresh: str = ""  #: content of a refresh that leads on, instead of a redirect


class CookieSite(Site):
    """A site whose `gates` let through what brings their cookies."""

    def __init__(self) -> None:
        super().__init__()
        self.gates: dict[str, Gate] = {}
        self._asked = threading.local()

    def answer(self, method: str, path: str, headers: dict[str, str]):
        self._asked.cookies = set(headers.get("cookie", "").split("; "))
        return super().answer(method, path, headers)

    def _page(self, path: str) -> Page | None:
        gate = self.gates.get(path.partition("?")[0])
        if gate is None or (gate.needs and self._asked.cookies.issuperset(gate.needs)):
            return super()._page(path)
        headers = {"Set-Cookie": gate.sets} if gate.sets else {}
        if not gate.refresh:
            return Page(redirect=gate.to, status=gate.status, headers=headers)
        if gate.to == "header":
            return Page(
                html("Wait", text="please wait"), headers=headers | {"Refresh": gate.refresh}
            )
        head = f'<meta http-equiv="refresh" content="{gate.refresh}">'
        return Page(html("Wait", text="please wait", head=head), headers=headers)

    def cookies(self, path: str) -> list[str | None]:
        """The Cookie of each request for a path."""
        return [request.headers.get("cookie") for request in self.log if request.path == path]


def fill_intranet(site: CookieSite) -> None:
    """A page behind a cookie of its own, one behind a detour, and one behind none."""
    site.pages["/"] = html("Home", "/self", "/tour", "/plain")
    site.pages["/self"] = html("Self", text="the page itself")
    site.pages["/tour"] = html("Tour", "/leaf", text="the page behind")
    site.pages["/plain"] = html("Plain")
    site.pages["/leaf"] = html("Leaf")
    site.gates["/self"] = Gate(("seen=1",), "seen=1; Path=/", "/self")
    site.gates["/tour"] = Gate(("tour=1", "checked=1"), "tour=1", "/check?back=/tour")
    site.gates["/check"] = Gate((), "checked=1; Path=/", "/tour")


def fill_ways(site: CookieSite) -> None:
    """Pages that set no cookie themselves, but lead to where one is set, and from there back."""
    site.pages["/"] = html("Home", "/moved", "/stub", "/veil", "/header", "/far")
    for path in ("/moved", "/stub", "/veil", "/header", "/far"):
        site.pages[path] = html(path, text="the text behind")
    site.gates["/moved"] = Gate(("a=1",), "", "/set?to=/moved")
    site.gates["/set"] = Gate((), "a=1; Path=/", "/moved")
    site.gates["/stub"] = Gate(("b=1",), "", "", refresh="0; url=/put?to=/stub")
    site.gates["/put"] = Gate((), "b=1; Path=/", "/stub")
    site.gates["/veil"] = Gate(("c=1",), "", "/lift?n=1&back=%2Fveil")
    site.gates["/lift"] = Gate((), "c=1; Path=/", "", refresh="0; url=/veil")
    site.gates["/header"] = Gate(("d=1",), "", "header", refresh="0; url=/sign?to=/header")
    site.gates["/sign"] = Gate((), "d=1; Path=/", "header", refresh="0; url=/header")
    site.gates["/far"] = Gate(("e=1",), "", "/first?to=/far")
    site.gates["/first"] = Gate((), "", "/second")
    site.gates["/second"] = Gate((), "e=1", "/far")
