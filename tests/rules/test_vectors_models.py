"""Whether a server that makes vectors still has the model of the stored ones."""

import pytest

from smartcrawl.rules.vectors import Answering, has_same_model

A, B = "http://a.example/v1", "http://b.example/v1"


@pytest.mark.covers("M-47")
@pytest.mark.parametrize(
    ("stored", "now", "same"),
    [
        (("m", A), ("m", A), True),
        (("m", A), ("m", B), True),  # the server moved
        (("m", A), ("n", A), False),
        (("m", A), ("n", B), False),
        (("m", A), ("", A), True),
        (("m", A), ("", B), False),
        (("", A), ("m", A), True),
        (("", A), ("m", B), False),
        ((None, A), (None, B), False),
        ((None, None), ("m", B), True),  # an older version noted neither
        (("m", None), (None, B), True),
        (("m", A), (None, None), True),
        (("m", None), ("n", B), False),
    ],
)
def test_the_name_in_the_answer_decides_and_else_the_address(
    stored: tuple[str | None, str | None], now: tuple[str | None, str | None], same: bool
):
    assert has_same_model(Answering(*stored), Answering(*now)) is same
