# One worker: docker build -t smartcrawl:0.1.0 . (docs/operations.md)
FROM python:3.11.14-slim-bookworm

ENV PYTHONUNBUFFERED=1 \
    DATA_DIR=/var/lib/smartcrawl \
    SOURCES_FILE=/etc/smartcrawl/sources.toml

WORKDIR /opt/smartcrawl
COPY requirements.txt .
COPY requirements-test.txt .
# The run-time set without pytest, the drivers of S3 and Azure, the embedders, and what serves MCP.
RUN grep -v '^pytest==' requirements.txt >run.txt \
    && grep -E '^(s3fs|adlfs|wordllama|tokenizers|safetensors|numpy|onnxruntime|sqlite-vec|openai|mcp)==' requirements-test.txt >>run.txt \
    && pip install --no-cache-dir --disable-pip-version-check --requirement run.txt
COPY scrapy.cfg .
COPY smartcrawl smartcrawl
RUN python -m compileall -q smartcrawl \
    && useradd --uid 10001 --no-create-home smartcrawl \
    && install -d -o smartcrawl -g smartcrawl /var/lib/smartcrawl

USER 10001:10001
VOLUME /var/lib/smartcrawl
ENTRYPOINT ["scrapy"]
CMD ["due"]
