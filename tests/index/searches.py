"""One table of searches that every sink has to answer alike: pages, queries, addresses in order."""

from typing import NamedTuple

from smartcrawl.model.documents import Chunk, ChunkPlace


class Held(NamedTuple):
    """A page that is indexed, by the last part of its address, or by all of it."""

    place: str
    chunks: tuple[Chunk, ...]
    title: str = ""
    language: str = "en"
    source: str = "docs"

    @property
    def shown_title(self) -> str:
        """The title of its hits: without one the last name in its address."""
        return self.title or self.place.rpartition("/")[2]


class Search(NamedTuple):
    """A query, and the pages that answer it."""

    name: str
    query: str
    found: tuple[str, ...]  #: best first
    sources: tuple[str, ...] = ()
    limit: int = 10


def pictured(text: str, pictures: str) -> tuple[Chunk, ...]:
    """A chunk with pictures."""
    return (Chunk((), text, pictures=pictures),)


def plain(*texts: str) -> tuple[Chunk, ...]:
    return tuple(Chunk((), text) for text in texts)


def defined(line: str, name: str) -> tuple[Chunk, ...]:
    """A chunk in whose middle a name is defined."""
    text = "Gravel stands before it.\n"
    places = (ChunkPlace(0, "top"), ChunkPlace(len(text), name, defines=True))
    return (Chunk((), f"{text}{line}\nIt does what it says.", places=places),)


PAGES = [
    Held("zebra/text", plain("all about the zebra here, and more of it"), "Of animals"),
    Held("zebra/heading", (Chunk(("Zebra",), "all about animals here, and more of it"),), "Other"),
    Held("zebra/title", plain("all about animals here, and more of it"), "Zebra"),
    Held("code/together", plain("an error code appears on the panel")),
    Held("code/apart", plain("a code that was made by mistake, not by an error")),
    Held("colours/both", plain("red green")),
    Held("colours/red", plain("red only")),
    Held("colours/blue", plain("blue only")),
    Held("chunks/split", plain("copper pipes", "silver spoons")),
    Held("chunks/one", plain("copper and silver rings")),
    Held("chunks/title", (Chunk(("Tin",), "nothing else here"),), "Bronze and brass"),
    Held("fish/many", plain("fish fish fish", "fish among many other words that stand here")),
    Held("fish/few", plain("fish among many other words that stand here")),
    Held("yak/title", plain("of animals in the hills, " * 8), "Yak"),
    Held("yak/text", plain("a yak and a yak in the hills"), "Of animals"),
    Held("whale/often", plain(*(f"a whale among the other words of line {n}" for n in range(6)))),
    Held("whale/once", plain("whale whale")),
    Held("fuse", plain("How to change a broken fuse", "Connections were connected again")),
    Held("cafe", plain("Ein schönes Café in São Paulo"), language="de"),
    Held("haeuser", plain("Die alten Häuser am Fluss wurden verkauft"), language="de"),
    Held("chats", plain("Les chevaux de l'étranger"), language="fr"),
    Held("kolory", plain("Zażółć gęślą jaźń"), language="pl"),
    Held("tokyo", plain("東京タワーは高い"), language="ja"),
    Held("signs/none", plain("C is a language, and C has pointers"), "C"),
    Held("signs/plus", plain("what one has to know of it: the templates of C++ are long")),
    Held("signs/sharp", plain("what one has to know of it: the classes of C# are short")),
    Held("nothing", plain("cryptic lines of an unsure tongue"), language=""),
    Held("same/b", plain("twins look alike"), "Twin"),
    Held("same/aaa", plain("twins look alike!"), "Twin"),
    Held("same/a", plain("twins look alike?"), "Twin"),
    Held("same/de", plain("polyglot in the first"), language="de"),
    Held("same/en", plain("polyglot in the second"), language="en"),
    Held("untitled", (), "Lonely heading"),
    Held("music", pictured("instruments of the hall", "A xylophone of oak\nMallets"), "Hall"),
    Held("gallery", pictured("", "Two xylophones"), "Rooms"),
    Held("band", plain("a xylophone, a xylophone and a gong"), "Xylophone"),
    Held("shop", plain("red apples are sold here"), "Apples", source="shop"),
    Held("the", plain("To be or not to be, who said that")),
    Held("dash", plain("a state-of-the-art device")),
    Held("shed/tidy", plain("Put the ladder away, and record where"), "Storage"),
    Held("shed/kinds", plain("ladders of all kinds, away from the wall"), "Stairs"),
    Held(
        "shed/list",
        plain(
            *("record storage here, wall there " * 9,) * 9,
            "put storage there, record wall there, record storage there; a ladder there,"
            " record wall there, record storage there, and wall away",
        ),
    ),
    Held("wein", plain("Der Wein wird im Keller gelagert"), "Lagerung", language="de"),
    Held("vin", plain("Le vin est conservé en bouteille"), "Conservation", language="fr"),
    Held("both", plain("an anchor in two sources"), "Anchor", source="shop"),
    Held("both", plain("an anchor in two sources"), "Anchor"),
    Held("rust/often", plain("a varnish, varnish and varnish"), "Paint"),
    Held("rust/rare", plain("a varnish of amber"), "Paint"),
    Held(
        "park",
        (
            Chunk(("Park",), "benches and lamps"),
            Chunk(("Park", "Roofs"), "a pergola beside some words that stand here"),
            Chunk(("Park", "Music"), "pergola pavilion pergola pavilion"),
            Chunk(("Park", "Views"), f"pavilion {'and other words between ' * 4} pergola"),
            Chunk(("Park", "Paths"), f"pavilion {'and other words behind it ' * 9}"),
        ),
        "Gazebos",
    ),
    Held("docs", plain("quince alder"), "Fruit"),
    Held("docs/a", plain("quince beech"), "Fruit"),
    Held("docs2", plain("quince cedar"), "Fruit"),
    Held("docs?page=2", plain("quince larch"), "Fruit"),
    Held("docs?page=22", plain("quince maple"), "Fruit"),
    Held("file:///srv/notes/a.md", plain("medlar alder"), "Fruit"),
    Held("file:///srv/notes/b%20c/d.md", plain("medlar beech"), "Fruit"),
    Held("file:///srv/notes2/a.md", plain("medlar cedar"), "Fruit"),
    Held("file:///SRV/notes/a.md", plain("medlar larch"), "Fruit"),
    Held("s3://notes/srv/a.md", plain("medlar maple"), "Fruit"),
    # More than an index proposes for the first page of hits; their lengths and addresses differ.
    *(
        Held(f"reeds/{n * 37 % 100}", plain("papyrus among the reeds " * (1 + n * 13 % 7)), "Reeds")
        for n in range(100)
    ),
    # Pages that two sources have, and one of each that has another text there.
    *(
        Held(f"twins/{n}", plain("obsidian among the stones " * (1 + n % 7)), "Stones",
             source=source)
        for n in range(40)
        for source in ("docs", "shop")
    ),
    *(
        Held(f"unlike/{n}", plain(f"an agate that {source} has " * (1 + n % 7)), "Stones",
             source=source)
        for n in range(40)
        for source in ("docs", "shop")
    ),
]  # fmt: skip

MANY = " ".join(f"{{0}}absent{n}" for n in range(1_500))

SEARCHES = [
    Search("two plus signs", "C++", ("signs/plus", "signs/none", "signs/sharp")),
    Search("a number sign", "c#?", ("signs/sharp", "signs/none", "signs/plus")),
    Search("a sign and a word", "templates C++", ("signs/plus", "signs/none", "signs/sharp")),
    Search("a letter", "c", ("signs/none", "signs/plus", "signs/sharp")),
    Search("title-heading-text", "zebra", ("zebra/title", "zebra/heading", "zebra/text")),
    Search("quoted-words-stay-together", '"error code"', ("code/together",)),
    Search("all-words-in-any-order", "code error", ("code/together", "code/apart")),
    Search("two-dashes-are-part-of-a-word", "code --error", ("code/together", "code/apart")),
    Search("all-words-before-any", "red green", ("colours/both", "colours/red", "shop")),
    Search("any-where-none-has-all", "blue absent", ("colours/blue",)),
    Search("any-of-several", "green blue absent", ("colours/blue", "colours/both")),
    Search("any-with-quoted-words", '"broken fuse" missing', ("fuse",)),
    Search("all-words-in-one-chunk-first", "copper silver", ("chunks/one", "chunks/split")),
    Search("title-and-heading-count-as-text", "bronze tin nothing", ("chunks/title",)),
    Search("a-page-once-by-its-best-chunk", "fish", ("fish/many", "fish/few")),
    Search("a-title-outweighs-a-text", "yak", ("yak/title", "yak/text")),
    Search("the-whole-page-counts-not-one-chunk", "whale", ("whale/often", "whale/once")),
    Search("a-chunk-that-is-not-the-first", "connections", ("fuse",)),
    Search("endings-do-not-matter", "connecting", ("fuse",)),
    Search("case-does-not-matter", "FUSE", ("fuse",)),
    Search("accents-do-not-matter", "schones cafe", ("cafe",)),
    Search("accents-and-case-do-not-matter", "SCHÖNES", ("cafe",)),
    Search("sao-paulo", "sao paulo", ("cafe",)),
    Search("german", "häuser", ("haeuser",)),
    Search("a-word-that-no-analyzer-knows", "gesla", ("kolory",)),
    Search("unsure-language", "tongue", ("nothing",)),
    Search("equal-pages-by-length-and-letters", "twins", ("same/a", "same/b", "same/aaa")),
    Search("a-page-without-text-by-its-title", "lonely", ("untitled",)),
    Search("pictures-are-found", "xylophone", ("band", "gallery", "music")),
    Search("a-phrase-of-a-picture", '"xylophone of oak"', ("music",)),
    Search("a-picture-that-is-left-out", "xylophone -oak", ("band", "gallery")),
    Search("a-word-of-a-picture-misspelt", "malets", ("music",)),
    Search("all-sources", "apples", ("shop",)),
    Search("one-source", "red", ("shop",), sources=("shop",)),
    Search("several-sources", "apples", ("shop",), sources=("docs", "shop")),
    Search("a-source-without-it", "apples", (), sources=("docs",)),
    Search("an-unknown-source", "apples", (), sources=("none",)),
    Search("limit", "twins", ("same/a", "same/b"), limit=2),
    Search("words-that-others-leave-out", '"to be or not to be"', ("the",)),
    Search("a-word-with-signs-stays-together", "state-of-the-art", ("dash",)),
    Search("a-sign-is-no-word", "? * fuse !", ("fuse",)),
    Search("no-word", "?! *", ()),
    Search("nothing-found", "absent", ()),
    Search("most-words-are-enough", "put ladder away", ("shed/tidy", "shed/kinds", "shed/list")),
    Search(
        "function-words-do-not-count",
        "where do I put the ladder?",
        ("shed/tidy", "shed/kinds", "shed/list"),
    ),
    Search("function-words-alone-count", "who said", ("the",)),
    Search("german-function-words", "wie wird der Wein gelagert", ("wein",)),
    Search("french-function-words", "comment est-ce que le vin est conservé", ("vin",)),
    Search("japanese", "東京タワーは高い", ("tokyo",)),
    Search("polish-without-accents", "zazolc jazn", ("kolory",)),
    Search("excluded-word", "zebra -text -heading", ("zebra/title", "zebra/heading", "zebra/text")),
    Search("excluded-word-of-a-page", "varnish -amber", ("rust/often",)),
    Search("many-excluded-words", f"varnish -amber {MANY.format('-')}", ("rust/often",)),
    Search("many-sites", f"amber site:a.example {MANY.format('site:')}", ("rust/rare",)),
    Search("excluded-phrase", '"red" -"red green" -apples', ("colours/red",)),
    Search("a-phrase-must-occur", '"error code" mistake', ("code/together",)),
    Search("an-unknown-phrase-counts-like-a-word", '"no such words" fuse', ("fuse",)),
    Search("site", "varnish site:a.example", ("rust/often", "rust/rare")),
    Search("site-and-path", "varnish site:http://a.example/rust/rare", ("rust/rare",)),
    Search("part-of-a-part", "varnish site:http://a.example/rust/r", ()),
    Search(
        "path-that-ends-with-a-part",
        "quince site:https://a.example/docs/",
        ("docs", "docs/a", "docs?page=2", "docs?page=22"),
    ),
    Search("path-with-a-query", "quince site:a.example/docs?page=2", ("docs?page=2",)),
    Search("excluded-path", "quince -site:a.example/docs", ("docs2",)),
    Search(
        "a-folder",
        "medlar site:file:///srv/notes/",
        ("file:///srv/notes/a.md", "file:///srv/notes/b%20c/d.md"),
    ),
    Search(
        "a-folder-with-a-space",
        'medlar site:"file:///srv/notes/b c"',
        ("file:///srv/notes/b%20c/d.md",),
    ),
    Search("a-file", "medlar site:file:///srv/notes/a.md", ("file:///srv/notes/a.md",)),
    Search(
        "all-folders",
        "medlar site:file:///",
        (
            "file:///SRV/notes/a.md",
            "file:///srv/notes/a.md",
            "file:///srv/notes2/a.md",
            "file:///srv/notes/b%20c/d.md",
        ),
    ),
    Search("a-bucket", "medlar site:S3://notes", ("s3://notes/srv/a.md",)),
    Search(
        "a-folder-and-a-bucket",
        "medlar site:s3://notes/srv site:file:///srv/notes/b%20c",
        ("s3://notes/srv/a.md", "file:///srv/notes/b%20c/d.md"),
    ),
    Search(
        "an-excluded-folder", "medlar -site:file:///srv -site:file:///SRV", ("s3://notes/srv/a.md",)
    ),
    Search("site-with-signs-of-patterns", "varnish site:a.example/rust/_", ()),
    Search("host-with-signs-of-patterns", "varnish site:% site:_.example site:%.example", ()),
    Search("sites", "varnish site:b.example site:example/rust/often", ("rust/often",)),
    Search("another-site", "varnish site:b.example", ()),
    Search("excluded-site", "varnish -site:a.example", ()),
    Search("excluded-sites", "varnish -site:b.example -site:example/rust/often", ("rust/rare",)),
    Search(
        "site-without-a-part", "varnish site:a.example -site:a.example/rust/rare", ("rust/often",)
    ),
    Search("site-without-a-value", "varnish amber site: -site: in:", ("rust/rare", "rust/often")),
    Search("a-quoted-site", 'varnish site:"b example"', ()),
    Search("a-quoted-source", 'red in:"shop"', ("shop",)),
    Search("excluded-source", "apples -in:docs", ("shop",)),
    Search("many-excluded-sources", f"apples {MANY.format('-in:')} -in:shop", ()),
    Search("many-sources", f"apples {MANY.format('in:')} in:shop", ("shop",)),
    Search("excluded-sources", "apples -in:shop -in:other", ()),
    Search("in-a-source", "red in:shop", ("shop",)),
    Search("in-sources-of-both", "red in:shop in:docs", ("shop",), sources=("shop",)),
    Search("in-no-common-source", "red in:shop", (), sources=("docs",)),
    Search("rare-words-count-more", "varnish amber", ("rust/rare", "rust/often")),
    Search("misspelt", "konnections", ("fuse",)),
    Search("misspelt-twice", "conectionz fuse", ("fuse",)),
    Search("misspelt-with-two-slips", "connnectoins", ("fuse",)),
    Search("too-far-to-be-meant", "zorquiblex", ()),
    Search("one-page-of-two-sources", "anchor", ("both",)),
]

#: Pages that define a name or have a title, and others that have its words more often.
NAMED_PAGES = [
    Held("names/open", defined("gurgle(file)", "gurgle"), "Functions"),
    Held("names/method", defined("gurgle(url)", "net.Opener.gurgle"), "The class Opener"),
    Held("names/often", plain("gurgle, gurgle and gurgle again"), "How to gurgle"),
    Held("names/option", plain("--no-zap\nThis never zaps."), "Options"),
    Held("names/zaps", plain("With --no-zap all zaps stay: --no-zap, no zap"), "Of --no-zap"),
    Held("names/camel", defined("class pool.TwigWumpBasket(n)", "pool.TwigWumpBasket")),
    Held("names/twig", plain("a twig may wump the basket, a twig wump basket")),
    Held("names/manual", (Chunk(("Name",), "frobcvs - Frob for CVS mongers"),), "frobcvs(7)"),
    Held("names/cvs", plain("frob the mongers of CVS: CVS mongers frob"), "Frob CVS mongers"),
    Held("news/37", plain("new, new, new in Lumox 3.11"), "What's New In Lumox 3.7 — Lumox 9"),
    Held("news/311", plain("all is as before"), "What's New In Lumox 3.11 — Lumox 9"),
]

NAMED_SEARCHES = [
    Search("a-defined-name", "gurgle()", ("names/open", "names/method", "names/often")),
    Search("the-end-of-a-name", "Opener.gurgle", ("names/method",)),
    Search("an-option", "--no-zap", ("names/option", "names/zaps")),
    Search("words-of-a-camel-case-name", "twig wump basket", ("names/twig", "names/camel")),
    Search("what-a-manual-is-named", "frob for CVS mongers", ("names/manual", "names/cvs")),
    Search("a-title-with-a-version", "what's new in lumox 3.11", ("news/311", "news/37")),
]

#: Names that people look for first, each with a page that mentions it more often.
KNOWN_PAGES = [
    Held("open/is", defined("open(file, mode='r')", "open"), "Built-in Functions — Manual 3.11"),
    Held("open/has", plain("open() and open(), open it with open()"), "Files — Manual 3.11"),
    Held("dict/is", defined("class dict(**kwargs)", "dict"), "Built-in Types — Manual 3.11"),
    Held("dict/has", plain("a dict of a dict, a dict again"), "Order of keys — Manual 3.11"),
    Held("stash/is", plain("Stashes changes away."), "git-stash(1) Manual Page"),
    Held("stash/has", plain("See git-stash(1), git-stash(1)."), "git-merge(1) Manual Page"),
    Held("vector/is", plain("A container with dynamic arrays."), "std::vector"),
    Held("vector/has", plain("Unlike std::vector: std::vector grows."), "std::array"),
    Held("noff/is", plain("--no-ff\nA merge commit in all cases."), "Options of merge"),
    Held("noff/has", plain("It passes --no-ff on, as no ff is --no-ff."), "Options of pull"),
    Held("code/is", plain("Expected type did not match."), "Error code E0308"),
    Held("code/has", plain("See E0308, as E0308 says, for E0308."), "Error code E0382"),
    Held("http/is", plain("The server finds no such resource."), "HTTP 404 Not Found"),
    Held("http/has", plain("Unlike HTTP 404: a 404 of HTTP may pass, HTTP 404."), "410 Gone"),
]

KNOWN_SEARCHES = {
    "open()": "open", "dict": "dict", "git-stash(1)": "stash",
    "std::vector": "vector", "--no-ff": "noff", "E0308": "code", "HTTP 404": "http",
}  # fmt: skip

#: Pages in scripts, and spellings, that are hard to compare.
HARD_PAGES = [
    Held("mixed", plain("Die Zeilen fixiert. Строки закреплены. 行の高さを変更する。 행의 높이"),
         language="de"),
    Held("turkish", plain("Sayfa sonu eklemek İSTANBUL"), language="tr"),
    Held("arabic", plain("طِبَاعَةُ المُسْتَنَدِ ٢٠٢٦"), language="ar"),
    Held("hebrew", plain("הַדְפָּסַת מִסְמָכִים"), language="he"),
    Held("hindi", plain("तालिका की पंक्तियाँ"), language="hi"),
    Held("thai", plain("การพิมพ์เอกสาร"), language="th"),
    Held("chinese", plain("冻结单元格的首行"), language="zh"),
    Held("japanese", plain("ﾃﾞｰﾀの入力"), language="ja"),
    Held("korean", plain("셀의 배경을 바꿉니다"), language="ko"),
    Held("persian", plain("می\u200cروم به خانه"), language="fa"),
    Held("accents", plain("Cafe\u0301 co\u00adoperate Straße ＰＤＦ"), language="fr"),
    Held("long", plain("x" * 200_000 + " lighthouse"), language="en"),
    Held("signs", plain("表" * 20_000 + "。ヒューズ"), language="ja"),
]  # fmt: skip

#: Queries of these, with the pages that they have to find.
HARD_SEARCHES = {
    "zeile": {"mixed"}, "строка": {"mixed"}, "行の高さ": {"mixed"}, "높이": {"mixed"},
    "istanbul": {"turkish"}, "المستند": {"arabic"}, "2026": {"arabic"}, "מסמכים": {"hebrew"},
    "तालिका": {"hindi"}, "เอกสาร": {"thai"}, "首行冻结": {"chinese"}, "データ": {"japanese"},
    "셀에서": {"korean"}, "میروم": {"persian"}, "café": {"accents"}, "cooperate": {"accents"},
    "STRASSE": {"accents"}, "pdf": {"accents"}, "lighthouse": {"long"}, "x" * 10_000: {"long"},
    "ヒューズ": {"signs"}, "表" * 10_000: {"signs"},
}  # fmt: skip
