"""Attacks that reach for addresses which no page of the web may lead to."""

import json
import os
from collections.abc import Iterator

import pytest

from tests.crawls.commands import Crawl, Record, Result, path_of
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=5)

#: Impatient, and quiet.
_QUICK: dict[str, object] = {"RETRY_TIMES": 0, "LOG_LEVEL": "WARNING"}
_REFUSED = "its address is not public: {}"
_PERMIT = "permit its network with ALLOW_NETWORKS"
_NAME = "metadata services are never requested by name"
_METADATA = "a metadata service hands out credentials; only ALLOW_NETWORKS={} permits it"
#: Hosts with the victim's port, and what each is refused as.
_HERE = {
    "/decimal": ("2130706433", "loopback (127.0.0.1)"),
    "/hex": ("0x7f000001", "loopback (127.0.0.1)"),
    "/hex-parts": ("0x7F.0.0.1", "loopback (127.0.0.1)"),
    "/octal": ("0177.0.0.01", "loopback (127.0.0.1)"),
    "/short": ("127.1", "loopback (127.0.0.1)"),
    "/plain": ("127.0.0.1", "loopback (127.0.0.1)"),
    "/dot": ("127.0.0.1.", "loopback (127.0.0.1)"),
    "/ideographic": ("127。0。0。1", "loopback (127.0.0.1)"),
    "/circled": ("①②⑦.⓪.⓪.①", "loopback (127.0.0.1)"),
    "/full-width": ("１２７.0.0.1", "loopback (127.0.0.1)"),
    "/user": ("8.8.8.8:80@127.0.0.1", "loopback (127.0.0.1)"),
    "/next": ("127.0.0.2", "loopback (127.0.0.2)"),
    "/name": ("localhost", "loopback (127.0.0.1)"),
    "/upper": ("LOCALHOST", "loopback (127.0.0.1)"),
    "/zero": ("0", "this network (0.0.0.0)"),
    "/six": ("[0:0:0:0:0:0:0:1]", "loopback (::1)"),
    "/mapped": ("[::ffff:127.0.0.1]", "loopback (::ffff:7f00:1)"),
    "/compatible": ("[::127.0.0.1]", "loopback (::7f00:1)"),
    "/nat64": ("[64:ff9b::7f00:1]", "loopback (64:ff9b::7f00:1)"),
    "/6to4": ("[2002:7f00:1::]", "loopback (2002:7f00:1::)"),
    "/teredo": ("[2001:0:7f00:1::]", "Teredo (2001:0:7f00:1::)"),
}
#: Hosts that are asked at port 80.
_ELSEWHERE = {
    "/aws": ("169.254.169.254", "metadata (169.254.169.254)"),
    "/aws-decimal": ("2852039166", "metadata (169.254.169.254)"),
    "/aws-six": ("[fd00:ec2::254]", "metadata (fd00:ec2::254)"),
    "/aws-nat64": ("[64:ff9b::a9fe:a9fe]", "metadata (64:ff9b::a9fe:a9fe)"),
    "/google": ("Metadata.Google.Internal", "metadata (metadata.google.internal)"),
    "/google-dot": ("metadata.google.internal.", "metadata (metadata.google.internal.)"),
    "/alibaba": ("100.100.100.200", "metadata (100.100.100.200)"),
    "/oracle": ("192.0.0.192", "metadata (192.0.0.192)"),
    "/azure": ("168.63.129.16", "metadata (168.63.129.16)"),
    "/ten": ("10.0.0.1", "private (10.0.0.1)"),
    "/router": ("192.168.1.1", "private (192.168.1.1)"),
}
#: All of them are declared, so that only the guard is in the way.
_DECLARED = [
    "127.0.0.1", "127.0.0.2", "localhost", "localhost.", "0.0.0.0", "[::1]", "[::ffff:7f00:1]",
    "[::7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "169.254.169.254",
    "[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]", "metadata.google.internal",
    "metadata.google.internal.", "100.100.100.200", "192.0.0.192", "168.63.129.16", "10.0.0.1",
    "192.168.1.1", "8.8.8.8",
]  # fmt: skip
_PORTS = (22, 25, 5432, 6379, 6800, 9200)


@pytest.fixture
def victim() -> Iterator[Site]:
    """A server on another port of this machine, which nobody on the web may lead to."""
    with Site() as running:
        yield running


def port(site: Site) -> str:
    return site.url("").rpartition(":")[2]


def declare(crawl: Crawl, site: Site, *more: str) -> None:
    """Declare a source whose scope lets every link pass."""
    domains = json.dumps([*_DECLARED, *more])
    crawl.declare(f'[sources.one]\nseeds = ["{site.url()}"]\nallowed_domains = {domains}\n')


def run(crawl: Crawl, *, expect: int | None = None, **settings: object) -> Result:
    return crawl(source="one", expect=expect, settings=_QUICK | settings)


def told(record: Record) -> tuple[str, int, str]:
    return record["lastOutcome"], record["httpStatusCode"], record["errorMessage"]


def refused(url: str, purpose: str) -> tuple[str, int, str]:
    """What is told of an address; a name is looked up first for its robots.txt."""
    remedy = _PERMIT
    if purpose.startswith("metadata"):
        address = purpose.removeprefix("metadata (").removesuffix(")")
        address = address.replace("64:ff9b::a9fe:a9fe", "169.254.169.254")
        entry = f"{address}/{128 if ':' in address else 32}"
        remedy = _NAME if "google" in address else _METADATA.format(entry)
    why = f"{_REFUSED.format(remedy)} (address not allowed: {purpose})"
    if "localhost" in url:
        why = f"{url.removesuffix(path_of(url))}/robots.txt could not be read: {why}"
    return "failed", 1109, why


def test_no_spelling_of_a_forbidden_address_is_connected_to(site: Site, victim: Site, crawl: Crawl):
    """ATT-1 to ATT-5, ATT-9; what is held of a host that turns inside is not gone."""
    here = {path: f"http://{host}:{port(victim)}{path}" for path, (host, _) in _HERE.items()}
    elsewhere = {path: f"http://{host}{path}" for path, (host, _) in _ELSEWHERE.items()}
    ports = [f"http://8.8.8.8:{number}/port" for number in _PORTS]
    dotted = f"http://localhost.:{port(victim)}/dotted"  # some name servers know it, some do not
    site.pages["/"] = html("Home", *here.values(), *elsewhere.values(), *ports, dotted)
    victim.pages |= {path: html(path, text="treasure") for path in here}
    declare(crawl, site)

    run(crawl, expect=3)

    assert victim.log == []
    records = {path_of(record["url"]): record for record in crawl.records()}
    for path, (_, purpose) in (_HERE | _ELSEWHERE).items():
        assert told(records[path]) == refused(records[path]["url"], purpose), path
        assert records[path]["status"] == "Error"
    assert records["/dotted"]["httpStatusCode"] in (1108, 1109)
    assert {
        told(record) for record in crawl.records() if record["url"].startswith("http://8.8.8.8")
    } == {
        ("failed", 1109, f"port not allowed: {number}: permit it with ALLOW_PORTS")
        for number in _PORTS
    }

    run(crawl, ALLOW_NETWORKS="127.0.0.1/32")  # else nothing would show that it can be reached

    inside = {path for path, (_, purpose) in _HERE.items() if "(127.0.0.1)" in purpose}
    assert inside <= {request.path for request in victim.log} <= {*here, "/robots.txt"}
    assert inside <= set(crawl.hits("treasure"))
    victim.clear()

    run(crawl)

    assert victim.log == []
    after = {path_of(record["url"]): record for record in crawl.records()}
    for path in inside:
        word, status, message = told(after[path])
        assert (word, status) == ("failed", 1109)
        assert message.endswith(f"(address not allowed: {_HERE[path][1]})")
        assert after[path]["contentHash"] is not None
    assert inside <= set(crawl.hits("treasure"))


#: What of a page's markup leads on, and what does not.
_FOLLOWED = {
    "/a": '<a href="{}">x</a>',
    "/area": '<map><area href="{}"></map>',
    "/iframe": '<iframe src="{}"></iframe>',
    "/canonical": '<link rel="canonical" href="{}">',
    "/hreflang": '<link rel="alternate" hreflang="de" href="{}">',
    "/rel-next": '<link rel="next" href="{}">',
    "/feed": '<link rel="alternate" type="application/rss+xml" href="{}">',
    "/refresh": '<meta http-equiv="refresh" content="0; url={}">',
}
_PASSED_BY = {
    "/image": '<img src="{}" alt="x">',
    "/script": '<script src="{}"></script>',
    "/style": '<link rel="stylesheet" href="{}">',
    "/form": '<form action="{}"><button>x</button></form>',
    "/object": '<object data="{}"></object>',
    "/embed": '<embed src="{}">',
    "/ping": '<a href="/hub" ping="{}">x</a>',
    "/prefetch": '<link rel="prefetch" href="{}">',
    "/manifest": '<link rel="manifest" href="{}">',
}
_REDIRECTS = (301, 302, 303, 307, 308)
_SITEMAPS = {
    "/urlset": "<urlset><url><loc>{}</loc></url></urlset>",
    "/index": "<sitemapindex><sitemap><loc>{}</loc></sitemap></sitemapindex>",
    "/rss": "<rss><channel><item><link>{}</link></item></channel></rss>",
    "/atom": '<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{}"/></entry></feed>',
}


def lay_ways(site: Site, victim: Site) -> set[str]:
    """Let everything that a site can say lead to the victim; return the paths that are meant."""
    ways = _FOLLOWED | _PASSED_BY
    paths = [*(f"/page{way}" for way in ways), *(f"/moved/{status}" for status in _REDIRECTS)]
    for way, markup in ways.items():
        site.pages[f"/page{way}"] = html(way, head=markup.format(victim.url(way)))
    for status in _REDIRECTS:
        site.pages[f"/moved/{status}"] = Page(status=status, redirect=victim.url(f"/{status}"))
    site.pages["/based"] = html("Base", "base", head=f'<base href="{victim.url()}">')
    lines = {
        "Refresh": f"0; url={victim.url('/refresh-line')}",
        "Link": f'<{victim.url("/link-line")}>; rel="canonical"',
        "Content-Location": victim.url("/location-line"),
    }
    site.pages["/lines"] = Page(html("Lines"), headers=lines)
    for way, body in _SITEMAPS.items():
        site.pages[f"/map{way}"] = Page(body.format(victim.url(way)), content_type="text/xml")
    maps = [*(f"/map{way}" for way in _SITEMAPS), victim.url("/named")]
    site.pages["/robots.txt"] = "".join(f"Sitemap: {path}\n" for path in maps)
    site.pages["/"] = html("Home", *paths, "/based", "/lines")
    statuses = (f"/{status}" for status in _REDIRECTS)
    return {*_FOLLOWED, *_SITEMAPS, *statuses, "/base", "/named", "/refresh-line"}


def test_nothing_that_a_site_says_leads_to_where_it_may_not(site: Site, victim: Site, crawl: Crawl):
    """ATT-7: links, redirects, frames, refreshes, canonicals, sitemaps, robots.txt, base."""
    followed = lay_ways(site, victim)
    declare(crawl, site)

    run(crawl, expect=3)

    assert victim.log == []
    inside = {
        path_of(record["url"]): record
        for record in crawl.records()
        if record["url"].startswith(victim.url(""))
    }
    assert set(inside) >= followed
    for path in followed:
        assert told(inside[path]) == refused(inside[path]["url"], "loopback (127.0.0.1)"), path
    moved = {r["url"]: told(r)[:2] for r in crawl.records() if "/moved/" in r["url"]}
    assert moved == {site.url(f"/moved/{n}"): ("redirected", n) for n in _REDIRECTS}
    for path in _PASSED_BY:
        assert path not in inside

    run(crawl, ALLOW_NETWORKS="127.0.0.1/32")

    assert followed <= {request.path for request in victim.log}, "it was the guard that refused"


def test_a_sitemap_on_another_port_of_this_machine_is_not_asked(
    site: Site, victim: Site, crawl: Crawl
):
    """ATT-7: a robots.txt cannot lead the crawl where its seed may not."""
    sitemap = f"Sitemap: {victim.url('/map.xml')}"
    site.pages["/robots.txt"] = Page(sitemap, content_type="text/plain")
    site.pages["/"] = html("Home")

    crawl(site.url("/"), expect=3)

    assert victim.log == []
    assert crawl.pages()["/map.xml"]["httpStatusCode"] == 1109


def test_a_link_into_a_private_network_is_not_connected_to(site: Site, victim: Site, crawl: Crawl):
    """ATT-5: a seed on loopback just works; what pages name there does not, unless allowed."""
    names = [f"127.0.0.1:{port(victim)}", f"localhost:{port(victim)}"]
    names.append(f"[::ffff:127.0.0.1]:{port(victim)}")
    fillers = [f"/{n}" for n in range(40)]  # so that three unreachable ones are not too many
    site.pages["/"] = html("Home", *(f"http://{name}/" for name in names), *fillers)
    site.pages |= {path: html(path) for path in fillers}
    victim.pages["/"] = html("Inside", text="crown jewels")
    own = site.url("").removeprefix("http://")
    allowed = [own, *names[:2], f"[::ffff:7f00:1]:{port(victim)}"]
    crawl.declare(f'[sources.one]\nseeds = ["{site.url()}"]\nallowed_domains = {allowed}\n')

    run(crawl, expect=0)

    assert victim.log == []
    inside = [record for record in crawl.records() if site.url("") not in record["url"]]
    assert len(inside) == 3
    assert {record["lastOutcome"] for record in inside} == {"failed"}
    assert all("ALLOW_NETWORKS" in record["errorMessage"] for record in inside), inside
    run(crawl, expect=0, ALLOW_NETWORKS="127.0.0.1/32")
    assert victim.count("/") >= 1
    assert crawl.search("crown jewels")


def test_a_robots_txt_cannot_be_fetched_from_where_its_host_may_not(
    site: Site, victim: Site, crawl: Crawl
):
    """ATT-7: the rules of a host may lie behind a redirect, but not anywhere."""
    victim.pages["/robots.txt"] = "User-agent: *\nDisallow:\n"
    site.pages["/"] = html("Home")
    site.pages["/robots.txt"] = Page(status=302, redirect=victim.url("/robots.txt"))
    declare(crawl, site)

    run(crawl, expect=3)

    assert victim.log == []
    assert site.count("/") == 0
    [home] = crawl.records()
    assert told(home) == (
        "failed",
        1109,
        f"{site.url('/robots.txt')} could not be read:"
        f" {_REFUSED.format(_PERMIT)} (address not allowed: loopback (127.0.0.1))",
    )


def test_a_seed_that_leads_to_a_refused_address_names_number_and_remedy(
    site: Site, victim: Site, crawl: Crawl
):
    """ATT-7."""
    inside = f"http://127.0.0.2:{port(victim)}/"
    site.pages["/"] = Page(status=302, redirect=inside)
    declare(crawl, site, f"127.0.0.2:{port(victim)}")

    result = run(crawl, expect=3)

    why = f"1109: {_REFUSED.format(_PERMIT)} (address not allowed: loopback (127.0.0.2))"
    reason = f"seed_failed: {site.url()} (redirected to {inside}: {why})"
    assert reason in crawl.runs()[0]["reasons"]
    assert f"not complete: {reason}\n" in result.out
    assert f"not complete: {reason}\n" in crawl.run("status").out
    assert victim.log == []


def test_other_schemes_are_no_addresses(site: Site, crawl: Crawl):
    """ATT-8: as links, redirects, sitemaps and entries of sitemaps."""
    secret = crawl.folder / "secret.html"
    secret.write_text(html("Secret", text="treasure"))
    targets = [
        secret.as_uri(), "ftp://127.0.0.1/x", "data:text/html,jewels", "gopher://127.0.0.1:6379/x",
        "s3://bucket/key", "javascript:alert(1)", "view-source:http://127.0.0.1/", "jar:http://x!/",
    ]  # fmt: skip
    moved = [f"/moved/{n}" for n in range(len(targets))]
    site.pages["/"] = html("Home", *targets, *moved)
    site.pages |= {
        path: Page(status=302, redirect=target) for path, target in zip(moved, targets, strict=True)
    }
    entries = "".join(f"<url><loc>{target}</loc></url>" for target in targets)
    site.pages["/map.xml"] = Page(f"<urlset>{entries}</urlset>", content_type="text/xml")
    named = "".join(f"Sitemap: {target}\n" for target in ["/map.xml", *targets])
    site.pages["/robots.txt"] = named

    crawl(site.url(), expect=None, settings=_QUICK)

    pages = crawl.pages()
    assert set(pages) == {"/", "/map.xml", *moved}
    for path in moved:
        message = "status 302 without a usable Location"
        assert told(pages[path]) == ("failed", 1003, message), path
    assert crawl.search("treasure") == []
    seed = crawl(secret.as_uri(), expect=1, settings=_QUICK)
    assert "expected an http or https address" in seed.err


SPIDER = """
import json
import scrapy
from smartcrawl.spiders.site import SiteSpider


class Reaching(SiteSpider):
    name = "reaching"

    async def start(self):
        async for entry in super().start():
            yield entry
        for url, meta in json.loads(self.settings["TARGETS"]):
            yield scrapy.Request(
                url, self.reached, errback=self.refused, meta=meta, dont_filter=True
            )

    def reached(self, response):
        yield {"url": response.url, "told": "reached"}
        if response.url.endswith("/from"):
            yield scrapy.Request(response.urljoin("/to"), self.reached)

    def refused(self, failure):
        yield {"url": failure.request.url, "told": str(failure.value)}
"""


def test_requests_of_ones_own_spider_are_guarded_too(site: Site, victim: Site, crawl: Crawl):
    """ATT-1, ATT-2, ATT-3, ATT-8, ATT-10, ATT-17: also without robots.txt, and by a proxy."""
    site.pages |= {path: html(path) for path in ("/", "/from", "/to")}
    package = crawl.folder / "code"
    package.mkdir()
    (package / "reaching.py").write_text(SPIDER)
    crawl.environment["PYTHONPATH"] = os.pathsep.join(
        [str(package), *filter(None, [os.getenv("PYTHONPATH")])]
    )
    number, proxy = port(victim), {"proxy": site.url("")}
    bare = {"dont_obey_robotstxt": True}
    loopback = "address not allowed: loopback (127.0.0.1)"
    targets: list[tuple[str, dict[str, object], str]] = [
        ("file:///etc/hostname", {}, "scheme not allowed: file"),
        ("data:,x", {}, "scheme not allowed: data"),
        ("ftp://127.0.0.1/x", {}, "scheme not allowed: ftp"),
        ("s3://bucket/key", {}, "scheme not allowed: s3"),
        (victim.url("/plain"), {}, loopback),
        (f"http://localhost:{number}/name", {}, loopback),
        (f"http://localhost:{number}/bare", bare, "localhost"),
        (f"http://2130706433:{number}/decimal", bare, "2130706433"),
        (f"http://0x7f.1:{number}/hex", bare, "0x7f.1"),
        ("http://metadata.google.internal/x", {}, "address not allowed: metadata"),
        (f"http://localhost:{number}/proxied", proxy | bare, loopback),
        (f"http://127.1:{number}/proxied", proxy | bare, loopback),
        ("http://8.8.8.8/by-victim", {"proxy": victim.url("")} | bare, "127.0.0.1"),
        (site.url("/from"), {}, "reached"),
    ]
    items = crawl.folder / "items.jsonl"
    feed = {str(items): {"format": "jsonlines", "item_classes": ["builtins.dict"]}}
    settings = _QUICK | {
        "SPIDER_MODULES": "smartcrawl.spiders,reaching",
        "TARGETS": json.dumps([(url, meta) for url, meta, _ in targets]),
        "FEEDS": json.dumps(feed),
    }

    crawl(site.url(), spider="reaching", settings=settings, expect=None)

    assert victim.log == []
    assert {request.path for request in site.log} == {"/robots.txt", "/", "/from", "/to"}
    assert not any("referer" in request.headers for request in site.log)
    said = {item["url"]: item["told"] for item in map(json.loads, items.open())}
    assert said.pop(site.url("/to")) == "reached"
    assert len(said) == len(targets)
    for url, _, words in targets:
        assert words in said[url], said
    assert list(said.values()).count("reached") == 1


# Proxies

_SEED = "http://192.0.2.1/"  # nobody has this address, and only a proxy would be asked for it


@pytest.fixture
def proxied(crawl: Crawl) -> Iterator[Site]:
    """A proxy that the environment names; it would serve pages of any host."""
    with Site() as proxy:
        names = ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY")
        crawl.environment |= dict.fromkeys(names, proxy.url("")) | {"no_proxy": "", "NO_PROXY": ""}
        proxy.pages[_SEED] = html("Proxied", text="by proxy")
        yield proxy


def lead_on(proxy: Site, crawl: Crawl, *links: str) -> Result:
    """Crawl by proxy a page with these links, all in scope."""
    proxy.pages[_SEED] = html("Home", *links)
    proxy.pages |= {link: html(link, text="treasure") for link in links}
    domains = json.dumps([*_DECLARED, "192.0.2.1"])
    crawl.declare(f'[sources.one]\nseeds = ["{_SEED}"]\nallowed_domains = {domains}\n')
    return run(crawl, HTTPPROXY_ENABLED=1)


def test_proxies_of_the_environment_are_ignored(proxied: Site, site: Site, crawl: Crawl):
    """ATT-10."""
    site.pages["/"] = html("Home")

    crawl(site.url(), settings=_QUICK)

    assert crawl.outcomes() == {"/": "new"}
    assert site.count("/") == 1
    assert proxied.log == []


def test_a_proxy_that_is_wanted_is_not_asked_for_forbidden_addresses(
    proxied: Site, victim: Site, crawl: Crawl
):
    """ATT-10."""
    numbers = ["127.0.0.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]"]
    links = [f"http://{host}:{port(victim)}/{n}" for n, host in enumerate(numbers)]
    links += ["http://10.0.0.1/4", "http://metadata.google.internal/5", "http://8.8.8.8:6379/6"]

    lead_on(proxied, crawl, *links)

    assert {request.path for request in proxied.log} == {_SEED, f"{_SEED}robots.txt"}
    records = {record["url"]: record for record in crawl.records()}
    assert told(records.pop(_SEED))[:2] == ("new", 200)
    assert len(records) == len(links)
    assert {told(record)[:2] for record in records.values()} == {("failed", 1109)}


def test_a_proxy_is_not_asked_for_names_of_forbidden_addresses(
    proxied: Site, victim: Site, crawl: Crawl
):
    """ATT-10: the proxy would look the name up and connect to it in our place."""
    lead_on(proxied, crawl, f"http://localhost:{port(victim)}/")

    assert {request.path for request in proxied.log} == {_SEED, f"{_SEED}robots.txt"}
    records = {record["url"]: record for record in crawl.records()}
    assert told(records[f"http://localhost:{port(victim)}/"])[:2] == ("failed", 1109)
    assert crawl.search("treasure") == []
