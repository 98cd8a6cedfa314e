"""TLS for the peer of GitHub, with an authority of its own and certificates that change."""

import ssl
from pathlib import Path

from tests.certificates import Signer, made, written
from tests.github_peer import GithubPeer


class SecurePeer:
    """Lets a peer speak TLS under a name, which a proxy may lead to it."""

    def __init__(self, peer: GithubPeer, folder: Path, host: str = "127.0.0.1") -> None:
        self.peer = peer
        self.host = host
        self.authority = made("Trial authority", authority=True)
        self.ca_file = written(folder, "authority.pem", self.authority, key=False)
        self.port = int(peer.origin.rpartition(":")[2])
        self._folder = folder
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.show(made("github", hosts=(host,), issuer=self.authority))
        peer._server.socket = self._context.wrap_socket(peer._server.socket, server_side=True)
        self.name(host if host != "127.0.0.1" else f"{host}:{self.port}")

    def name(self, place: str) -> None:
        """Have the peer name itself by another host, and port if it is not the usual one."""
        self.peer.origin = f"https://{place}"
        self.peer.api, self.peer.raw = f"{self.peer.origin}/api/v3", f"{self.peer.origin}/raw"

    def show(self, signer: Signer) -> None:
        """Answer with this certificate from now on."""
        self._context.load_cert_chain(written(self._folder, "server.pem", signer))
