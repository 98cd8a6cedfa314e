"""A server that answers as SharePoint, Microsoft Graph and their sign-in do.

No emulator of them can be had, so each module lists its shapes with their public source, or as
assumed. `server.py` shows how tests use it.
"""

from tests.servers.sharepoint.answers import Answer, Request
from tests.servers.sharepoint.entries import Entry
from tests.servers.sharepoint.faults import Fault
from tests.servers.sharepoint.libraries import Library, PageLibrary
from tests.servers.sharepoint.lists import GenericList
from tests.servers.sharepoint.pages import Text, WebPart
from tests.servers.sharepoint.server import Asked, SharepointServer
from tests.servers.sharepoint.tenant import Person, Site, Tenant

__all__ = [
    "Answer",
    "Asked",
    "Entry",
    "Fault",
    "GenericList",
    "Library",
    "PageLibrary",
    "Person",
    "Request",
    "SharepointServer",
    "Site",
    "Tenant",
    "Text",
    "WebPart",
]
