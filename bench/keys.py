"""A pass over the keys of a bucket: moto's S3 on loopback, and the requests that it received.

    python bench/keys.py KEYS

Prints one line of JSON: keys listed, requests that the server received meanwhile, CPU seconds of
this process (the server's among them), wall seconds, and the peak of resident memory in MiB.
"""

import logging
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

from bench.own_figures import OwnFigures
from smartcrawl.sources.listing.bucket import BucketListing
from smartcrawl.sources.listing.entries import ListingRules

BUCKET = "keys"
ACCESS = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "127.0.0.1",
}


class Counted:
    """An application of moto, with a count of the requests that it received."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self.received = 0

    def __call__(self, environ: Any, start_response: Any) -> Any:
        """Count a request, and answer it."""
        self.received += 1
        return self._application(environ, start_response)


def main() -> None:
    """List the bucket once and print the measurement."""
    count = int(sys.argv[1])
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    backend.create_bucket(BUCKET, "us-east-1")
    for number in range(count):
        backend.put_object(BUCKET, f"section-{number // 100:05}/page-{number % 100:02}.md", b"x")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    served: Any = server._server  # it has no other way to its application
    served.app = application = Counted(served.app)
    host, port = server.get_host_and_port()
    os.environ |= ACCESS | {"AWS_ENDPOINT_URL_S3": f"http://{host}:{port}"}
    figures = OwnFigures()
    listing = BucketListing(f"s3://{BUCKET}/", rules=ListingRules())
    listed = sum(len(batch) for batch in listing.batches())
    if listed != count or listing.problems:
        raise SystemExit(f"{listed} of {count} keys are listed: {listing.problems}")
    figures.print(listed, requests=application.received)
    server.stop()


if __name__ == "__main__":
    main()
