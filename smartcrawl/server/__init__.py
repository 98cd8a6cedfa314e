"""The HTTP API: the answers of the commands for other programs (docs/api.md)."""
