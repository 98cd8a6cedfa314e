"""The index in an Elasticsearch 8 or 9: one document for each page (docs/elasticsearch.md)."""
