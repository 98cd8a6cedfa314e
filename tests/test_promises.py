"""Names that users rely on do not go by accident."""

from tests.promises import LIST, promises


def test_nothing_that_users_were_promised_has_gone():
    listed, found = LIST.read_text(encoding="utf-8").splitlines(), promises()

    assert sorted(set(listed) - set(found)) == []
    assert sorted(set(found) - set(listed)) == [], "run: python -m tests.promises --write"
    assert len(found) > 1000
