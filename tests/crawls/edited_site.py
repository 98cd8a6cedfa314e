"""A site where everything can become of a page between two runs, and does."""

from tests.site_server import Page, Site, html

#: Words of its pages, each before or after the edit.
WORDS = ("page", "whale", "shark", "edited", "directory", "section 7", "deep", "fresh", "treasure")


def before(site: Site) -> None:
    """About 150 pages with all that can happen to them."""
    clone = html("Clone", "/", text="the same whale swims by on every page of this kind " * 6)
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /forbidden\n")
    sections = [f"/s{n}/" for n in range(10)]
    site.pages["/"] = html(
        "Home", *sections, "/dir", "/moved", "/forbidden", "/deep/0", "/noindex", "/gone",
        "/shark", "/shark/copy", "/shark/copy/2", "/print", "/hides", "/private",
    )  # fmt: skip
    for n, section in enumerate(sections):
        pages = [f"{section}{k}" for k in range(10)]
        site.pages[section] = html(f"Section {n}", *pages, f"{section}missing", "/s0/0")
        for k, path in enumerate(pages):
            links = [f"/s{(n + 1) % 10}/{k}", f"{section}{(k + 3) % 10}", f"{path}/leaf"]
            site.pages[path] = clone if k == 4 else html(f"Page {n}.{k}", *links, text=f"page {k}")
        site.pages[f"{section}2/leaf"] = html(f"Leaf {n}", text=f"leaf of section {n}")
    for n in range(12):
        site.pages[f"/deep/{n}"] = html(f"Deep {n}", f"/deep/{n + 1}", text=f"deep down {n}")
    site.pages["/dir"] = Page(redirect="/dir/")
    site.pages["/dir/"] = html("Directory", "child", "/lost", text="a directory")
    site.pages["/dir/child"] = html("Child")
    site.pages["/lost"] = html("Lost", "/lost/child", text="soon forgotten page")
    site.pages["/lost/child"] = html("Lost child")
    site.pages["/moved"] = Page(redirect="/dir/child", status=302)
    site.pages["/noindex"] = html(
        "No", "/behind", head='<meta name="robots" content="noindex">', text="hidden page"
    )
    site.pages["/behind"] = html("Behind", text="page behind")
    site.pages["/gone"] = html("Gone soon", "/gone/child", text="page that goes")
    site.pages["/gone/child"] = html("Child of the gone page")
    shark = html(
        "Shark", text="one shark in every page of this group, and its fin above water " * 6
    )
    site.pages["/shark"] = site.pages["/shark/copy"] = site.pages["/shark/copy/2"] = shark
    site.pages["/print"] = alias("/s4/4")
    site.pages["/hides"] = html("Hides soon", "/hides/child", text="treasure in sight")
    site.pages["/hides/child"] = html("Child of what hides", text="treasure below")
    site.pages["/private"] = html("Private soon", "/private/child", text="treasure of everybody")
    site.pages["/private/child"] = html("Child of what is private", text="treasure behind")


def alias(canonical: str) -> str:
    """A page that stands aside for another one."""
    head = f'<link rel="canonical" href="{canonical}">'
    return html(f"Aside of {canonical}", "/print/child", text="a page to be printed", head=head)


def edit(site: Site) -> None:
    """What happens between two runs."""
    for n in range(0, 10, 2):
        site.pages[f"/s{n}/1"] = html(f"Page {n}.1", f"/fresh/{n}", text=f"edited text {n}")
        site.pages[f"/fresh/{n}"] = html(f"Fresh {n}", f"/fresh/{n}/more", text="fresh page")
        site.pages[f"/fresh/{n}/more"] = html(f"More {n}")
    site.pages["/s0/4"] = html("No clone any more", text="edited away from the whale")
    site.pages["/s3/5"] = site.pages["/s1/4"]
    site.pages["/gone"] = Page("gone", status=410)
    site.pages["/dir/"] = html("Directory", "child", text="an edited directory")
    site.pages["/lost/child"] = Page("later", status=503)  # so it is not let go
    site.pages["/noindex"] = html("Yes", "/behind", text="no longer hidden page")
    site.pages["/s5/1"] = Page(redirect="/dir/child")
    site.pages["/s7/1"] = alias("/s7/2")
    site.pages["/s7/5"] = Page("no entry", status=403)
    site.pages["/shark"] = Page("gone", status=404)
    site.pages["/hides"] = html(
        "Hides", "/hides/child", head='<meta name="robots" content="noindex">'
    )
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /forbidden\nDisallow: /private\n")
    del site.pages["/s9/9"]


def edit_again(site: Site) -> None:
    """What happens later, without a new address."""
    for n in range(1, 10, 2):
        site.pages[f"/s{n}/3"] = html(f"Page {n}.3", f"/s{n}/6", text=f"edited later {n}")
    site.pages["/s2/5"] = Page("gone", status=410)
    site.pages["/s4/1"] = Page(redirect="/dir/child")
    site.pages["/s6/7"] = Page("later", status=503)
    site.pages["/s8/2"] = html("No", "/s8/3", head='<meta name="robots" content="noindex">')
