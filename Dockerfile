# One worker: docker build -t smartcrawl:0.1.0 . (docs/operations/containers.md)
# The digest is that of the index of all platforms; another image: --build-arg PYTHON_IMAGE=…@sha256:…
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d
FROM ${PYTHON_IMAGE}

# Further extras of pyproject.toml, such as those of embedders: --build-arg EXTRAS=vectors,openai
ARG EXTRAS=

ENV PYTHONUNBUFFERED=1 \
    DATA_DIR=/var/lib/smartcrawl \
    SOURCES_FILE=/etc/smartcrawl/sources.toml

WORKDIR /usr/src/smartcrawl
COPY pyproject.toml .
COPY requirements-image.lock .
COPY requirements-extras.lock .
# The run-time set, the drivers of S3 and Azure, and what serves MCP: each file by its hash.
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes \
    --requirement requirements-image.lock
# The files of all extras are checked by their hashes, and those asked for are installed from them.
RUN if [ -n "$EXTRAS" ]; then python -c 'import sys, tomllib; \
project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
extras = [project["optional-dependencies"][name] for name in sys.argv[1].split(",") if name]; \
print(*sum(extras, []), sep="\n")' "$EXTRAS" >extras.txt \
    && pip download --no-cache-dir --disable-pip-version-check --require-hashes --no-deps \
    --requirement requirements-extras.lock --dest files \
    && pip install --no-cache-dir --disable-pip-version-check --no-index --find-links files \
    --requirement extras.txt && rm -r files; fi
COPY README.md .
COPY LICENSE .
COPY NOTICE .
COPY setup.py .
COPY smartcrawl smartcrawl
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation --no-index . \
    && useradd --uid 10001 --no-create-home smartcrawl \
    && install -d -o smartcrawl -g smartcrawl /var/lib/smartcrawl
# For the commands of scrapy.
WORKDIR /opt/smartcrawl
COPY scrapy.cfg .

USER 10001:10001
VOLUME /var/lib/smartcrawl
ENTRYPOINT ["smartcrawl"]
CMD ["due"]
