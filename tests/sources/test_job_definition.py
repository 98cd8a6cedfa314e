"""Definitions of jobs, right and wrong ones."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.sources import jobs as job_definition
from smartcrawl.sources.fields import declared_pattern_size
from smartcrawl.sources.jobs import JobConfig, JobDefinition, JobError

NOW = 1_705_744_800  #: 2024-01-20T10:00:00Z
#: The example of the specification, with its patterns, which match none of its seeds.
EXAMPLE = json.loads(r"""
{
  "name": "daily-news-crawl",
  "seed_urls": ["https://cnn.com", "https://bbc.com", "https://reuters.com"],
  "config": {"max_depth": 5, "max_pages": 100000, "crawl_delay_ms": 1000,
             "respect_robots_txt": true, "follow_redirects": true, "max_redirects": 5,
             "timeout_seconds": 30, "user_agent": "SearchBot/1.0"},
  "filters": {"allowed_domains": ["cnn.com", "bbc.com", "reuters.com"],
              "url_patterns": [".*\\/news\\/.*", ".*\\/article\\/.*"],
              "excluded_patterns": [".*\\/video\\/.*", ".*\\/gallery\\/.*"]},
  "schedule": {"type": "recurring", "cron": "0 0 * * *"}
}
""")
HUGE = 10**40
NOT_TEXT = [None, 5, True, ["a"], {"a": 1}]
NOT_NUMBER = [None, "5", True, 5.5, float("inf"), float("nan"), [5], {"a": 1}]
NOT_SWITCH = [None, "true", 1, 0, [True]]
NUMBERS = {
    "max_depth": (1, 10),
    "max_pages": (1, 1_000_000_000),
    "crawl_delay_ms": (0, 3_600_000),
    "timeout_seconds": (1, 3_600),
    "max_redirects": (0, 20),
}


def changed(path: str, value: object) -> dict:
    """Return the example with another value at a place such as ``config.max_depth``."""
    body = copy.deepcopy(EXAMPLE)
    *parts, last = path.split(".")
    place = body
    for part in parts:
        place = place[part]
    place[last] = value
    return body


def refused(path: str, value: object) -> JobError:
    with pytest.raises(JobError) as caught:
        JobDefinition.checked(changed(path, value), NOW)
    return caught.value


def definition(path: str = "name", value: object = "docs") -> JobDefinition:
    return JobDefinition.checked(changed(path, value), NOW)


@pytest.mark.covers("R2-20", "R2-21", "R2-22", "R2-23")
def test_the_example_of_the_specification_is_a_source_with_settings():
    job = JobDefinition.checked(EXAMPLE, NOW)
    source = job.source()

    assert source.name == "daily-news-crawl"
    assert source.seeds == ("https://cnn.com/", "https://bbc.com/", "https://reuters.com/")
    assert (source.max_depth, source.max_pages) == (5, 100_000)
    assert all(source.scope.allows(seed) for seed in source.seeds)
    assert source.scope.allows("https://edition.cnn.com/news/today")
    assert not source.scope.allows("https://cnn.com/weather")
    assert not source.scope.allows("https://cnn.com/news/video/today")
    assert not source.scope.allows("https://cnnxcom.example/news/")
    assert job.run_settings() == {
        "DOWNLOAD_DELAY": 1.0,
        "DOWNLOAD_TIMEOUT": 30,
        "REDIRECT_MAX_TIMES": 5,
        "ROBOTSTXT_OBEY": True,
        "USER_AGENT": "SearchBot/1.0",
    }
    cron = job.cron(NOW)
    assert cron is not None
    assert cron.next_fire(NOW) == NOW + 14 * 3_600


@pytest.mark.covers("R2-21")
def test_only_name_and_seeds_are_needed_and_the_example_has_the_defaults():
    body = {"name": "docs", "seed_urls": ["https://docs.example.com/a"]}
    job = JobDefinition.checked(body, NOW)

    assert job.config.model_dump() == EXAMPLE["config"]
    assert job.cron(NOW) is None
    assert job.source().scope.allows("https://docs.example.com/b")


@pytest.mark.covers("R2-21")
@pytest.mark.parametrize(
    ("follow", "most", "expected"), [(True, 0, 0), (True, 7, 7), (False, 7, 0), (False, 0, 0)]
)
def test_redirects_that_are_not_followed_are_a_limit_of_none(follow, most, expected):
    body = copy.deepcopy(EXAMPLE)
    body["config"] |= {"follow_redirects": follow, "max_redirects": most}

    assert JobDefinition.checked(body, NOW).run_settings()["REDIRECT_MAX_TIMES"] == expected


@pytest.mark.covers("R2-11")
@pytest.mark.parametrize("value", [0, 11, -1, HUGE, -HUGE])
def test_a_depth_out_of_range_is_refused_in_the_words_of_the_specification(value):
    error = refused("config.max_depth", value)

    assert (error.code, error.message) == ("INVALID_CONFIG", "Crawl configuration is invalid")
    assert (error.field, error.reason) == ("max_depth", "max_depth must be between 1 and 10")


@pytest.mark.covers("R2-25")
@pytest.mark.parametrize(("field", "bounds"), NUMBERS.items())
def test_numbers_have_their_ranges(field, bounds):
    for value in bounds:
        assert getattr(definition(f"config.{field}", value).config, field) == value
    for value in (bounds[0] - 1, bounds[1] + 1, HUGE, 1e300):
        error = refused(f"config.{field}", value)
        assert error.reason == f"{field} must be between {bounds[0]} and {bounds[1]}"
        assert (error.code, error.field) == ("INVALID_CONFIG", field)


@pytest.mark.covers("R2-25")
@pytest.mark.parametrize("field", NUMBERS)
def test_a_whole_number_may_be_written_with_a_point(field):
    assert repr(getattr(definition(f"config.{field}", 7.0).config, field)) == "7"


@pytest.mark.covers("R2-25")
@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        *((name, value, "integer") for name in NUMBERS for value in NOT_NUMBER),
        *(("respect_robots_txt", value, "boolean") for value in NOT_SWITCH),
        *(("follow_redirects", value, "boolean") for value in NOT_SWITCH),
        *(("user_agent", value, "string") for value in NOT_TEXT),
    ],
)
def test_wrong_values_of_the_configuration_are_refused(field, value, kind):
    error = refused(f"config.{field}", value)

    assert (error.code, error.field) == ("INVALID_CONFIG", field)
    reasons = [f"{field} must be a valid {kind}", f"{field} must be a finite number"]
    assert error.reason.partition(",")[0] in reasons


@pytest.mark.covers("R2-25")
@pytest.mark.parametrize(
    "value",
    ["", " ", "a\r\nX-Injected: 1", "a\nb", "a\x00", "bot\x7f", "böt", "bot ", "\ud800", "a" * 257],
)
def test_no_user_agent_can_add_a_header(value):
    error = refused("config.user_agent", value)

    assert (error.code, error.field) == ("INVALID_CONFIG", "user_agent")
    assert "X-Injected" not in error.reason


@pytest.mark.covers("R2-25")
@pytest.mark.parametrize("value", [*NOT_TEXT, "", "a b", "a/b", "é", "a\x00", "\ud800", "a" * 256])
def test_a_name_is_the_name_of_a_source(value):
    error = refused("name", value)

    assert (error.code, error.field) == ("INVALID_INPUT", "name")
    assert error.message == "Request validation failed"
    assert definition("name", "a" * 255).source().name == "a" * 255


@pytest.mark.covers("R2-25")
@pytest.mark.parametrize("value", [None, "https://a.example/", {}, []])
def test_seeds_are_a_list(value):
    error = refused("seed_urls", value)

    assert (error.code, error.field) == ("INVALID_INPUT", "seed_urls")


@pytest.mark.covers("R2-25")
@pytest.mark.parametrize("value", [[5], [None], [["a"]]])
def test_each_seed_is_a_text(value):
    error = refused("seed_urls", value)

    assert (error.code, error.field) == ("INVALID_URL", "seed_urls")


@pytest.mark.covers("R2-10", "R2-25")
@pytest.mark.parametrize(
    "value",
    [
        "", "not an address", "docs.example.com", "ftp://a.example/", "javascript:alert(1)",
        "file:///etc/passwd", "http://", "http://a.example/\x00", "http://a.example/\r\nx",
        "http://a.example/\ud800", "http://a.example/" + "a" * 100_000,
    ],
)  # fmt: skip
def test_a_bad_address_is_refused_with_its_place(value):
    error = refused("seed_urls", ["https://cnn.com/", value])

    assert (error.code, error.message) == ("INVALID_URL", "URL format is invalid")
    assert error.field == "seed_urls"
    assert error.reason.startswith("seed_urls[1] must ")


@pytest.mark.covers("RD-20")
@pytest.mark.parametrize(
    "value",
    [
        "https://me:hunter2@cnn.com/",
        "https://hunter2@cnn.com/",
        "https:\\\\me:hunter2@cnn.com/",
        "https:me:hunter2@cnn.com/",
        "https://cnn.com/?access_token=hunter2",
        "https://cnn.com/?api%5Fkey=hunter2",
        "https://a.blob.core.windows.net/c?sv=2024-08-04&se=2026-12-01&sig=hunter2",
        "https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature=hunter2",
        "htp://me:hunter2@cnn.com/",
        "https://me:hunter2@/",
    ],
)
def test_a_seed_with_a_secret_is_refused_without_repeating_it(value):
    error = refused("seed_urls", [value])

    assert error.code == "INVALID_URL"
    assert "hunter2" not in f"{error} {error.reason} {error.field} {error.__context__!s}"


@pytest.mark.covers("R2-22", "R2-25")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((f"filters.{name}", value)
          for name in ("allowed_domains", "url_patterns", "excluded_patterns")
          for value in (None, "cnn.com", {}, [5], [None], ["\x00"], ["\ud800"], ["a"] * 1_001)),
        ("filters.allowed_domains", ["not a domain"]),
        ("filters.allowed_domains", ["https://cnn.com/"]),
        ("filters.url_patterns", ["("]),
        ("filters.url_patterns", [r"(?=a)"]),
        ("filters.url_patterns", ["a" * 1_001]),
        ("filters.url_patterns", ["(a{1000}){1000}"]),
        ("filters.url_patterns", ["/news/"] * 98),  # with those of three seeds 101
        ("filters.excluded_patterns", [r"(a)\1"]),
        ("schedule.type", "hourly"),
        ("schedule.type", None),
        ("schedule.type", 5),
        ("schedule.type", "one_time"),  # beside a cron
        ("schedule.cron", None),
        ("schedule.cron", 5),
        ("schedule.cron", "* * * * *"),
        ("schedule.cron", "0 0 0 * * *"),
        ("schedule.cron", "0 0 * * *\x00"),
        ("schedule.cron", "\ud800"),
        ("config", None),
        ("filters", None),
        ("schedule", None),
        ("config", []),
    ],
)  # fmt: skip
def test_wrong_filters_and_schedules_are_refused(path, value):
    error = refused(path, value)

    field = "cron" if path == "schedule.type" and value == "one_time" else path.split(".")[-1]
    assert (error.code, error.field) == ("INVALID_CONFIG", field)
    assert error.reason.startswith(field)
    error.reason.encode()  # it can be sent


#: It compiles to 359,000 steps within the memory that RE2 takes by itself.
LARGE = r"(?i)\pL{300}x"


@pytest.mark.parametrize("field", ["url_patterns", "excluded_patterns"])
@pytest.mark.parametrize("pattern", [LARGE, r"\pL{100}", r"(?i)[\pL\pN]{90}$", r"(\pL{30}){5}"])
def test_large_patterns_are_refused_at_the_first(
    monkeypatch: pytest.MonkeyPatch, field: str, pattern: str
):
    """ATT-66."""
    tried: list[str] = []

    def compiled(pattern: str, *, small: bool) -> int:
        tried.append(pattern)
        return declared_pattern_size(pattern, small=small)

    monkeypatch.setattr(job_definition, "declared_pattern_size", compiled)
    more = [f"{pattern}{number}" for number in range(50)]
    error = refused(f"filters.{field}", more)

    assert (error.code, error.field) == ("INVALID_CONFIG", field)
    assert "pattern too large" in error.reason
    assert tried[-1] == more[0]
    assert more[1] not in tried


def test_patterns_that_are_too_large_together_are_refused():
    """ATT-66: those of both lists count."""
    steps = declared_pattern_size(r"^\pL{20}0", small=True)
    fitting = [rf"^\pL{{20}}{number}" for number in range(50_000 // steps)]
    filters = {"url_patterns": fitting, "excluded_patterns": [r"^\pL{20}z"], "allowed_domains": []}

    error = refused("filters", filters)

    assert (error.code, error.field) == ("INVALID_CONFIG", "excluded_patterns")
    assert error.reason.startswith("excluded_patterns[0] is too much: all patterns together")
    assert definition("filters", {**filters, "excluded_patterns": []}).filters.url_patterns == (
        fitting
    )


def test_the_operator_may_declare_a_large_pattern():
    assert declared_pattern_size(LARGE) > 300_000
    with pytest.raises(ValueError, match="pattern too large"):
        declared_pattern_size(LARGE, small=True)
    with pytest.raises(ValueError, match="pattern too large"):
        declared_pattern_size(r"\pL{1000}")


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("filters.allowed_domains", ["bbc.com"], "its host is not in allowed_domains"),
        ("filters.excluded_patterns", ["cnn"], "one of excluded_patterns matches it"),
        ("seed_urls", ["https://cnn.com/a.zip"], "files of type .zip are skipped"),
    ],
)
def test_a_seed_that_a_filter_excludes_is_refused(path, value, why):
    error = refused(path, value)

    assert (error.code, error.field) == ("INVALID_CONFIG", "filters")
    assert why in error.reason


@pytest.mark.covers("R2-25")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("priority", "INVALID_INPUT"),
        ("config.concurrency", "INVALID_CONFIG"),
        ("filters.hosts", "INVALID_CONFIG"),
        ("schedule.timezone", "INVALID_CONFIG"),
    ],
)
def test_unknown_keys_are_refused(path, code):
    error = refused(path, 1)

    assert (error.code, error.field) == (code, path.split(".")[-1])
    assert error.reason == f"{error.field} is not known: /openapi.json lists what is"


@pytest.mark.parametrize("key", ["\ud800", "a\x00b", "a" * 100_000, ""])
def test_an_unknown_key_that_cannot_be_sent_is_not_repeated(key):
    error = refused(f"config.{key}", 1)

    assert error.field == "config"
    assert error.reason.startswith(("a key of config is not known: ", "config must be a valid "))
    error.reason.encode()


@pytest.mark.covers("R2-25")
@pytest.mark.parametrize("body", [None, [], "docs", 5, True, {}, {"name": "docs"}])
def test_other_bodies_are_refused(body):
    with pytest.raises(JobError) as caught:
        JobDefinition.checked(body, NOW)

    assert caught.value.code == "INVALID_INPUT"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=["Cs", "Cc"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
PATHS = (
    "name", "seed_urls", "config", "filters", "schedule", "schedule.type", "schedule.cron",
    *(f"config.{name}" for name in JobConfig.model_fields),
    "filters.allowed_domains", "filters.url_patterns", "filters.excluded_patterns",
)  # fmt: skip


@given(path=st.sampled_from(PATHS), value=JSON)
def test_any_json_is_a_definition_or_an_error_of_jobs(path, value):
    code, text = "INVALID_", ""
    try:
        text = json.dumps(JobDefinition.checked(changed(path, value), NOW).model_dump())
    except JobError as error:
        code, text = error.code, f"{error.reason} {error.field}"

    assert code.startswith("INVALID_")
    assert text.encode()
