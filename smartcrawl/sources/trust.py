"""Which certificates of web servers are accepted, by a source and the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from smartcrawl.model.options import Options
from smartcrawl.sources.base import Source


@dataclass(frozen=True, slots=True)
class CertificateTrust:
    """Choice of the certificates of web servers that are accepted."""

    verify: bool = True
    ca_file: Path | None = None  #: PEM; trusted in addition to the authorities of the system

    @classmethod
    def of(cls, source: Source | None, options: Options) -> Self:
        """Return the trust of a source; the settings fill the gaps of its declaration.

        None: the trust of a spider without a source.
        """
        verify, ca_file = options.verify_certificates, options.ca_file
        if source is not None:
            if source.verify_certificates is not None:
                verify = source.verify_certificates
            if source.ca_file is not None:
                ca_file = source.ca_file
        return cls(verify, ca_file)
