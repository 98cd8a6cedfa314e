"""Characters that nobody sees, in what people and language models read."""

import json

import pytest

from smartcrawl.model.redaction import escaped_text, json_safe_text


@pytest.mark.parametrize("char", ["\U000e0000", "\U000e0041", "\U000e007f"])
def test_tag_characters_are_shown_as_escapes(char: str):
    """ATT-64."""
    assert escaped_text(f"a{char}b") == f"a\\U{ord(char):08x}b"
    printed = json_safe_text(json.dumps(f"a{char}b", ensure_ascii=False))
    assert printed.isascii()
    assert json.loads(printed) == f"a{char}b"
