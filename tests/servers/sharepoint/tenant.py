"""A tenant in memory: sites with libraries, lists and pages, people, and a clock."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from threading import RLock
from typing import TypeVar

from tests.servers.sharepoint.libraries import Library, PageLibrary
from tests.servers.sharepoint.lists import GenericList, SharepointList

Made = TypeVar("Made", bound=SharepointList)


@dataclass(frozen=True)
class Person:
    """A person of the tenant."""

    id: int
    title: str  #: display name
    email: str


class Site:
    """A site with its lists and libraries."""

    def __init__(self, tenant: Tenant, path: str, title: str) -> None:
        self.tenant = tenant
        self.path = path  #: server relative, e.g. /sites/demo; set another to rename the site
        self.title = title
        self.guid = str(uuid.uuid4())
        self.web_guid = str(uuid.uuid4())
        self.lists: list[SharepointList] = []
        self.allowed = True  #: whether the app has a right to the site

    def library(self, title: str = "Documents", url_name: str = "Shared Documents") -> Library:
        """Make a library; its title may differ from its path."""
        return self._kept(Library(self, title, url_name))

    def pages(self) -> PageLibrary:
        """Make the library of site pages."""
        made = self._kept(PageLibrary(self, "Site Pages", "SitePages"))
        made.column("CanvasContent1", "Note", "Authoring Canvas Content", rich=True, hidden=True)
        return made

    def list(self, title: str, url_name: str = "") -> GenericList:
        """Make a list."""
        return self._kept(GenericList(self, title, url_name or title))

    def _kept(self, made: Made) -> Made:
        self.lists.append(made)
        return made


class Tenant:
    """Sites, people and the manners of the service that tests may change."""

    def __init__(self) -> None:
        self.id = str(uuid.uuid4())
        self.lock = RLock()
        self.now = 1_767_323_045  #: Unix seconds: 2026-01-02T03:04:05Z
        self.sites: list[Site] = []
        self.people = [Person(1, "Ada Lovelace", "ada@example.com")]
        self.threshold = 5_000  #: the list view threshold
        self.default_page = 100  #: items of a page without $top
        self.most_page = 5_000  #: items of a page at most
        self.delta_page = 200  #: items of a page of a delta
        self.rename_touches = False  #: whether a rename changes Modified (assumed: no)
        self.shows_never_checked_in = False  #: to an app (assumed: no)
        self.delta_names_deleted_children = False  #: of a deleted folder (assumed: no)
        self.delta_twice = False  #: a changed item comes twice, first as it was before
        self.resync = "resyncChangesApplyDifferences"  #: the code of a 410
        self.next_by_guid = False  #: next links name the list by its GUID instead of the way asked

    def tick(self) -> int:
        """Let a second pass, and return the time."""
        self.now += 1
        return self.now

    def site(self, path: str = "/sites/demo", title: str = "Demo") -> Site:
        """Make a site."""
        made = Site(self, path, title)
        self.sites.append(made)
        return made

    def person(self, title: str, email: str = "") -> Person:
        """Make a person, whom fields name by the id."""
        made = Person(len(self.people) + 1, title, email or f"p{len(self.people)}@example.com")
        self.people.append(made)
        return made

    def find_site(self, path: str) -> Site | None:
        """Return the site of a server relative path, compared as SharePoint does."""
        return next((site for site in self.sites if site.path.lower() == path.lower()), None)

    def forget_delta_tokens(self, code: str = "") -> None:
        """Let every delta token given so far be answered 410."""
        self.resync = code or self.resync
        for site in self.sites:
            for made in site.lists:
                made.generation += 1
