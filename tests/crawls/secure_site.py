"""A site of the tests over TLS, whose certificate an authority of its own signs."""

import ssl
from pathlib import Path

from smartcrawl.sources.trust import CertificateTrust
from tests.certificates import Signer, made, written
from tests.site_server import Site

HOSTS = ("127.0.0.1", "localhost")


class Secure:
    """A web site over TLS whose certificate changes."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.authority = made("Trial authority", authority=True)
        self.ca_file = written(folder, "authority.pem", self.authority, key=False)
        self.trust = CertificateTrust(ca_file=self.ca_file)
        self._folder = folder
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.show(made("site", hosts=HOSTS, issuer=self.authority))
        assert site._server is not None
        site._server.socket = self._context.wrap_socket(site._server.socket, server_side=True)

    def show(self, signer: Signer, *chain: Signer) -> None:
        """Answer with this certificate from now on."""
        self._context.load_cert_chain(written(self._folder, "server.pem", signer, *chain))

    def demand(self, readers: Path) -> None:
        """Speak to those alone who show a certificate that these have signed."""
        self._context.load_verify_locations(readers)
        self._context.verify_mode = ssl.CERT_REQUIRED

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return self.site.url(path).replace("http://127.0.0.1", f"https://{host}")
