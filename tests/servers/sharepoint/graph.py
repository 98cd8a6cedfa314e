"""Microsoft Graph, version 1.0 (a stand-in until its answers are written)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.servers.sharepoint.answers import Answer, GraphError, Request

if TYPE_CHECKING:
    from tests.servers.sharepoint.server import SharepointServer


def answer(server: SharepointServer, request: Request) -> Answer:
    return GraphError(501, "notSupported", "Not yet.").answer()


def download(server: SharepointServer, request: Request) -> Answer:
    return Answer(404)
