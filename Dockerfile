# One worker: docker build -t smartcrawl:0.1.0 . (docs/operations.md)
FROM python:3.11.14-slim-bookworm

# Further extras of pyproject.toml, such as those of embedders: --build-arg EXTRAS=vectors,openai
ARG EXTRAS=

ENV PYTHONUNBUFFERED=1 \
    DATA_DIR=/var/lib/smartcrawl \
    SOURCES_FILE=/etc/smartcrawl/sources.toml

WORKDIR /usr/src/smartcrawl
COPY pyproject.toml .
# The run-time set, the drivers of S3 and Azure, and what serves MCP.
RUN python -c 'import sys, tomllib; \
project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
extras = [project["optional-dependencies"][name] for name in sys.argv[1].split(",") if name]; \
print(*project["dependencies"], *sum(extras, []), sep="\n")' "s3,azure,mcp,$EXTRAS" >run.txt \
    && pip install --no-cache-dir --disable-pip-version-check --requirement run.txt
COPY README.md .
COPY LICENSE .
COPY NOTICE .
COPY setup.py .
COPY smartcrawl smartcrawl
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps . \
    && useradd --uid 10001 --no-create-home smartcrawl \
    && install -d -o smartcrawl -g smartcrawl /var/lib/smartcrawl
# For the commands of scrapy.
WORKDIR /opt/smartcrawl
COPY scrapy.cfg .

USER 10001:10001
VOLUME /var/lib/smartcrawl
ENTRYPOINT ["smartcrawl"]
CMD ["due"]
