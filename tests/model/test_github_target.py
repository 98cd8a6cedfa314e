"""The places of a GitHub in the settings."""

import pytest

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import GithubTarget

SETTINGS = {
    "GITHUB_API_URL": "https://GHE.example.com/api/v3/",
    "GITHUB_RAW_URL": "https://ghe.example.com/raw",
    "GITHUB_WEB_URL": "https://ghe.example.com/",
}


def test_places_have_no_slash_at_their_end():
    assert GithubTarget.of(SETTINGS) == GithubTarget(
        api="https://ghe.example.com/api/v3",
        raw="https://ghe.example.com/raw",
        web="https://ghe.example.com",
    )


@pytest.mark.covers("RD-20")
@pytest.mark.parametrize("name", list(SETTINGS))
@pytest.mark.parametrize(
    "value",
    ["", "ghe.example.com", "ftp://a.example", "https://me:geheim@a.example", "https://a/?x"],
)
def test_another_value_is_refused_with_the_name_of_the_setting(name: str, value: str):
    with pytest.raises(SettingError, match=rf"^{name} is .*such as https://ghe\.example\.com") as e:
        GithubTarget.of(SETTINGS | {name: value})
    assert "geheim" not in str(e.value)
