"""Sites made by templates of several kinds: what repeats on each page, and what is its own."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_WORDS = """
anchor barge canvas deck ebb ferry gull harbour inlet jetty keel lantern mast net oar pier quay
rudder sail tide upstream vessel wharf yard zephyr amber birch cedar dune elm fern grove heath ivy
juniper kelp larch moss nettle oak pine reed sedge thorn willow
"""
WORDS = _WORDS.split()


@dataclass
class Made:
    """A page, with the lines that its templates put there and the sentences of its own."""

    markup: str = ""
    repeated: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)


class Writer:
    """Writes one page."""

    def __init__(self, site: str, number: int) -> None:
        self.random = random.Random(f"{site} {number}")
        self.number = number
        self.made = Made()

    def sentence(self) -> str:
        """A sentence that no other page has."""
        words = self.random.choices(WORDS, k=self.random.randint(9, 18))
        text = f"{' '.join(words).capitalize()} {self.number}-{len(self.made.own)}."
        self.made.own.append(text)
        return text

    def prose(self, count: int) -> str:
        lines = (" ".join(self.sentence() for _ in range(2)) for _ in range(count))
        return "".join(f"<p>{line}</p>" for line in lines)

    def name(self) -> str:
        words = self.random.choices(WORDS, k=3)
        text = f"{' '.join(words).title()} {self.number}{self.random.randint(100, 999)}"
        self.made.own.append(text)
        return text

    def again(self, *lines: str, tag: str = "div") -> str:
        """Lines of a template."""
        self.made.repeated += lines
        return "".join(f"<{tag}>{line}</{tag}>" for line in lines)

    def rare(self, text: str) -> str:
        """A sentence of a few pages."""
        self.made.own.append(text)
        return f"<p>{text}</p>"

    def page(self, title: str, *parts: str) -> Made:
        self.made.markup = f"<title>{title}</title><body>{''.join(parts)}</body>"
        return self.made


def news(number: int) -> Made:
    """A newspaper without elements that say what is what; three kinds of pages."""
    w = Writer("news", number)
    top = w.again(
        "Skip to the news",
        "The Harbour Gazette",
        "Sign in to your account",
        "We and our partners store data on your device. Accept all or choose.",
    )
    foot = w.again(
        "About the Gazette",
        "Terms of use and sale",
        "Contact the newsroom",
        "© The Harbour Gazette. All rights reserved.",
    )
    title = w.name()
    if number % 7 == 0:
        teasers = "".join(f"<div>{w.name()}</div>{w.prose(1)}" for _ in range(8))
        return w.page(title, top, f"<h1>{title}</h1>", teasers, foot)
    if number % 11 == 0:
        return w.page(title, top, f"<h1>{title}</h1>", w.prose(6), foot)
    share = w.again("Share this story with friends", "Save it for later")
    middle = w.again("Advertisement: the story continues below")
    letter = w.again("Get the morning letter", "All that matters at the pier, at seven each day.")
    more = "".join(f"<div>{w.name()}</div>" for _ in range(4))
    rare = w.rare("Correction: an earlier version named another boat.") if number % 9 == 0 else ""
    return w.page(
        title, top, f"<h1>{title}</h1><div>By a reporter of page {number}</div>", share,
        w.prose(w.random.randint(1, 5)),
        middle, w.prose(w.random.randint(1, 6)), rare, letter,
        f"<h2>Related stories</h2>{more}", foot,
    )  # fmt: skip


def shop(number: int) -> Made:
    """Products, with a table of their own, and a few pages of help."""
    w = Writer("shop", number)
    top = w.again("Free delivery above 40 crowns", "Your basket is empty", tag="p")
    foot = w.again("Pay by card, transfer or on delivery", "Send it back within thirty days",
                   "Chandlery at the Old Pier, open Monday to Friday", tag="p")  # fmt: skip
    title = w.name()
    if number % 10 == 0:
        return w.page(title, top, f"<h1>{title}</h1>", w.prose(5), foot)
    buy = w.again("Add to basket", "In stock, with you in two days", tag="p")
    rows = "".join(f"<tr><th>{word}</th><td>{n}{number}</td></tr>" for n, word in enumerate(
        ("Weight", "Length", "Colour")))  # fmt: skip
    care = w.again("How we pack and send", "Parcels leave at noon and are insured.")
    also = "".join(f"<li>{w.name()}</li>" for _ in range(w.random.randint(2, 5)))
    rare = w.rare("This article is not sent by plane.") if number % 6 == 0 else ""
    return w.page(
        title, top, f"<h1>{title}</h1><p>{number * 3}.00 crowns</p>", buy, w.prose(2),
        f"<table>{rows}</table>", rare, care, f"<p>Others bought</p><ul>{also}</ul>", foot,
    )  # fmt: skip


def blog(number: int) -> Made:
    """A blog of three authors, with remarks of readers."""
    w = Writer("blog", number)
    author = ("Ada", "Ben", "Cyd")[number % 3]
    top = w.again("Notes from the shore", "Home, archive, about", tag="div")
    bio = f"<p>{author} writes about boats and lives by the water.</p>"  # on a third of the pages
    foot = w.again("Leave a reply", "Your mail address will not be published.",
                   "Proudly made with a pen", tag="p")  # fmt: skip
    title = w.name()
    said = "".join(f"<p>{w.name()} says:</p>{w.prose(1)}" for _ in range(w.random.randint(0, 3)))
    return w.page(
        title, top, f"<h1>{title}</h1><p>On day {number}</p>", w.prose(w.random.randint(2, 8)), bio,
        f"<h3>{number % 4} replies to {title}</h3>{said}", foot,
    )  # fmt: skip


def recipes(number: int) -> Made:
    """Recipes, whose headings are the same and whose text is not."""
    w = Writer("recipes", number)
    top = w.again("Kitchen of the Pier", "Search two thousand dishes", tag="div")
    tip = w.again("Did you cook this? Tell us how it was.", "Rate it with up to five forks.")
    foot = w.again("Press and partners of the kitchen", "Privacy at the Kitchen of the Pier")
    title = w.name()
    items = "".join(f"<li>{n + number} grams of {w.name()}</li>" for n in range(5))
    steps = "".join(f"<li>{w.sentence()}</li>" for _ in range(4))
    rare = w.rare("Contains nuts, and may contain shells.") if number % 8 == 0 else ""
    return w.page(
        title, top, f"<h1>{title}</h1>", w.prose(1), f"<h2>Ingredients</h2><ul>{items}</ul>",
        f"<h2>Method</h2><ol>{steps}</ol>", rare, tip, f"<h2>Similar dishes</h2><p>{w.name()}</p>",
        foot,
    )  # fmt: skip


def events(number: int) -> Made:
    """Events of a town, with notices between and below them."""
    w = Writer("events", number)
    top = w.again("This site uses cookies to count its guests. More about them.", tag="p")
    bar = w.again("Town of the Pier", "Today", "This week", "All events of the year", tag="li")
    note = w.again("Tickets are sold at the town hall and at the door.",
                   "Children under seven enter free of charge.", tag="p")  # fmt: skip
    foot = w.again("Report a wrong date to the office", "Town hall, first floor, room five",
                   tag="p")  # fmt: skip
    title = w.name()
    rain = w.rare("In case of rain it moves to the net loft.") if number % 7 == 0 else ""
    return w.page(
        title, top, f"<ul>{bar}</ul><h1>{title}</h1><p>Day {number}, at {number % 12} o'clock</p>",
        w.prose(w.random.randint(1, 5)), note, rain, w.prose(1),
        f"<h2>Near by</h2><p>{w.name()}</p>", foot,
    )  # fmt: skip


SITES: dict[str, Callable[[int], Made]] = {
    "news": news, "shop": shop, "blog": blog, "recipes": recipes, "events": events
}  # fmt: skip


def made_site(name: str, count: int = 60) -> Iterator[Made]:
    """The pages of a site."""
    return (SITES[name](number) for number in range(1, count + 1))
