"""Log lines: what they look like, what is hidden in them, and where they go."""

import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from pprint import pformat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.settings import Settings
from scrapy.utils import log as scrapy_log
from scrapy.utils._download_handlers import get_dataloss_msg

from smartcrawl.engine.logs import Logs
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import (
    HIDDEN,
    LONGEST,
    escaped_text,
    redacted_line,
    redacted_lines,
    redacted_text,
)
from smartcrawl.model.settings_table import setting_value
from smartcrawl.terminal.log_lines import printed_line_formatter

FORMATS = ("text", "json")

DATES = "%Y-%m-%d %H:%M:%S"
UNSAFE = [
    *map(chr, (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))),
    *"\u2028\u2029\u200e\u200f\u061c\ud800\udfff",
]
NAMES = (
    "sig", "token", "access_token", "refresh_token", "id_token", "api_key", "apikey", "api-key",
    "x-api-key", "client_secret", "secret", "password", "passwd", "pwd", "X-Amz-Signature",
    "X-Amz-Credential", "X-Amz-Security-Token", "X-Goog-Signature", "AWSAccessKeyId",
    "SharedAccessSignature", "AccountKey", "PRIVATE-TOKEN", "Authorization", "Cookie", "Set-Cookie",
    "Proxy-Authorization", "ELASTICSEARCH_PASSWORD", "sasToken", "AWS_SECRET_ACCESS_KEY",
)  # fmt: skip
#: How a secret stands in a text. {n}: the name, {c}: the secret.
FORMS = (
    "https://a.example/?id=1&{n}={c}&page=2",
    "https://a.example/#{n}={c}",
    "Endpoint=https://a.example;{n}={c};Suffix=a",
    "{n}: {c}",
    "{n} = {c}",
    "{n}:{c}",
    "-H {n}:{c}",
    '{{"{n}": "{c}", "id": 1}}',
    '{{"{n}":"{c}","id":1}}',
    "{{'{n}': '{c}', 'id': 1}}",
    "{{b'{n}': [b'{c}', b'{c}'], b'id': [b'1']}}",
    "[('{n}', '{c}'), ('id', '1')]",
    '{{\\"{n}\\": \\"{c}\\"}}',
    "{n} is '{c}': expected another",
    "/login?next=%2Fdocs%3F{n}%3D{c}",
    "Request({n}='{c}')",
)
#: What may surround it, whatever the form: no end of a value, no quote, no backslash.
letters = st.text("abcxyzABCXYZ0189-._~!$*+:@/?=%^|`ü日(){}[],", max_size=9)


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, as it was before when the test is over."""
    before, level, raw = logging.root.handlers[:], logging.root.level, logging.raiseExceptions
    yield logging.root
    Logs.uninstall()
    scrapy_log._uninstall_scrapy_root_handler()
    logging.root.handlers[:], logging.raiseExceptions = before, raw
    logging.root.setLevel(level)


def settings(**changed: object) -> Settings:
    return Settings({"LOG_FORMAT": "text", "LOG_LEVEL": "INFO", **changed})


def record(message: object, *args: object, level: int = logging.INFO, **more: object):
    made = logging.LogRecord("smartcrawl.run.run", level, __file__, 1, message, args, None)
    made.created, made.msecs = 1795270442.1239, 123
    vars(made).update(more)
    return made


def line(kind: str, *args: object, **more: object) -> str:
    return printed_line_formatter(kind, DATES).format(record(*args, **more))


def failure(*messages: str):
    """Return sys.exc_info() of an exception with a message, and of its causes."""
    try:
        error = None
        for message in messages:
            try:
                raise ValueError(message) from error
            except ValueError as raised:
                error = raised
        raise error
    except ValueError:
        return sys.exc_info()


# Lines


def test_a_line_of_text_looks_like_scrapys():
    made = record("run %d of %s", 3, "docs")
    scrapys = logging.Formatter("%(asctime)s [%(name)s] %(levelname)s: %(message)s", DATES)

    logged = printed_line_formatter("text", DATES).format(made)

    assert logged == scrapys.format(made)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d [\d:]{8} \[smartcrawl.run.run\] INFO: run 3 of docs", logged
    )
    assert printed_line_formatter("text").format(made) == logged.replace(
        " [", ",123 [", 1
    )  # without a format


def test_a_line_of_json_is_an_object_with_four_keys():
    logged = json.loads(line("json", "run %d of %s", 3, "Bücher", level=logging.WARNING))

    assert logged == {
        "timestamp": "2026-11-21T14:14:02.123Z",
        "level": "warning",
        "logger": "smartcrawl.run.run",
        "event": "run 3 of Bücher",
    }
    assert list(logged) == ["timestamp", "level", "logger", "event"]


def test_arguments_may_be_named():
    assert line("text", "%(a)s!", {"a": 1}).endswith("INFO: 1!")
    assert line("text", "100 %").endswith("INFO: 100 %")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("args", [("%d pages", "many"), ("%s of %s", 1), ("%(a)s", {"b": 1})])
def test_a_message_that_does_not_take_its_arguments_is_told_all_the_same(kind, args):
    assert f"{args[0]} (without its arguments: " in line(kind, *args)


def test_a_traceback_of_text_is_indented():
    logged = line("text", "oops", exc_info=failure("first\n2026-11-21 14:14:02 [root] INFO: fine"))

    first, *rest = logged.split("\n")
    assert first.endswith("INFO: oops")
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-2:] == ["    ValueError: first", "    2026-11-21 14:14:02 [root] INFO: fine"]
    assert all(part.startswith("    ") for part in rest)


def test_a_traceback_of_json_is_a_text_of_its_own():
    logged = json.loads(line("json", "oops", exc_info=failure("one", "two\x1b\r")))

    assert list(logged) == ["timestamp", "level", "logger", "event", "exception"]
    assert logged["exception"].startswith("Traceback (most recent call last):\n")
    assert "ValueError: one\n\nThe above exception was the direct cause" in logged["exception"]
    assert logged["exception"].endswith("\nValueError: two\\x1b")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("none", [None, False, (None, None, None)])
def test_without_an_exception_there_is_no_traceback(kind: str, none: object):
    assert line(kind, "oops", exc_info=none) == line(kind, "oops")


def test_a_stack_is_told_like_a_traceback():
    assert line("text", "here", stack_info="Stack:\n  File").endswith("\n    Stack:\n      File")
    assert json.loads(line("json", "x", stack_info="Stack:"))["exception"] == "Stack:"


@pytest.mark.parametrize("kind", FORMATS)
def test_a_long_message_is_cut(kind: str):
    fits, longer = "x" * LONGEST, "x" * (LONGEST + 1)

    assert fits in line(kind, fits)
    logged = line(kind, longer)
    assert longer not in logged
    assert redacted_line(longer) == "x" * (LONGEST - 1) + HIDDEN
    assert len(redacted_line("\n" * LONGEST + ".")) == LONGEST
    assert all(
        len(part) <= LONGEST for part in redacted_lines("\n".join([longer, "y"] * 2)).split("\n")
    )
    trace = line(kind, "oops", exc_info=failure("y" * 3 * LONGEST))
    assert trace.count("y") < LONGEST


def test_a_secret_is_hidden_before_a_long_message_is_cut():
    """The end of user information is its @, and that may be what is cut off."""
    assert "geheim" not in redacted_line(
        "x" * (LONGEST - 20) + " http://u:geheim" + "z" * 50 + "@h/"
    )


# What is escaped


@pytest.mark.parametrize("char", UNSAFE, ids=ascii)
def test_no_character_moves_the_cursor_or_turns_the_text(char: str):
    logged = escaped_text(f"a{char}b")

    assert re.fullmatch(r"a\\(x[0-9a-f]{2}|u[0-9a-f]{4}|[nrt])b", logged)
    for kind in FORMATS:
        assert char not in line(kind, "a%sb", char)
        assert char not in line(kind, "a", name=f"a{char}b")
        trace = line(kind, "a", exc_info=failure(f"a{char}b"))
        assert char not in trace.replace("\n", "")


def test_escapes_are_those_of_python():
    assert escaped_text("\n\t\x1b[31m\x7f\x85\u2028\u202e\ud800") == (
        r"\n\t\x1b[31m\x7f\x85\u2028\u202e\ud800"
    )


def test_ordinary_text_stays_as_it_is():
    text = "Grüße, 日本, עברית, 👩\u200d💻, \\n, C:\\new"

    assert escaped_text(text) == redacted_text(text) == redacted_line(text) == text


@given(st.text(), st.text(), st.text())
def test_any_event_is_one_line_of_json(message: str, name: str, argument: str):
    logged = line("json", message, name=name) + line("json", "%s", argument)

    assert logged.isascii()
    assert logged.isprintable()
    one, two = (json.loads(part) for part in logged.replace("}{", "}\n{", 1).split("\n"))
    for logged in (one, two):
        assert list(logged) == ["timestamp", "level", "logger", "event"]
        assert not any(char in text for char in UNSAFE for text in logged.values())


@given(st.text())
def test_any_event_is_one_line_of_text(message: str):
    logged = line("text", message)

    assert not any(char in logged for char in UNSAFE)
    first, *rest = line("text", "x", exc_info=failure(message)).split("\n")
    assert first.endswith("INFO: x")
    assert all(part.startswith("    ") for part in rest)


FORGED = "x\n2026-11-21 14:14:02 [root] INFO: all is well"


def test_line_breaks_of_the_program_are_shown_and_those_of_a_page_are_not():
    first, *rest = line("text", "cannot read %s:\n%s\nrun it again", "a", FORGED).split("\n")
    assert first.endswith("INFO: cannot read a:")
    assert rest == [f"    {escaped_text(FORGED)}", "    run it again"]
    logged = line("json", "one:\n%s", FORGED)
    assert "\n" not in logged
    assert json.loads(logged)["event"] == escaped_text(f"one:\n{FORGED}")


@pytest.mark.parametrize("args", [(), ("a",), ({"a": 1},)])
def test_a_text_that_is_its_own_template_is_one_line_or_indented(args: tuple[object, ...]):
    template = FORGED + ("" if not args else " %s" if args == ("a",) else " %(a)s")
    first, *rest = line("text", template, *args).split("\n")
    assert "all is well" not in first or not args
    assert all(part.startswith("    ") for part in rest)
    assert bool(rest) is bool(args)


@given(st.text(), st.text())
def test_no_argument_adds_a_line(one: str, two: str):
    first, *rest = line("text", "a %s\nb %s", one, two).split("\n")
    assert len(rest) <= 1
    assert all(part.startswith("    ") for part in rest)
    assert not any(char in text for char in UNSAFE for text in (first, *rest))


def test_a_message_with_a_secret_is_one_line():
    logged = line("text", "a:\n%s", "token=geheim")
    assert "\n" not in logged
    assert "geheim" not in logged


def test_lists_of_scrapy_are_readable():
    shown = pformat({"downloader/request_count": 3, "reason": FORGED}, width=30)
    logged = line("text", "Stats:\n%(stats)s", {"stats": shown}, name="scrapy.statscollectors")
    first, *rest = logged.split("\n")
    assert first.endswith("Stats:")
    assert rest[0] == "    {'downloader/request_count': 3,"
    assert all(part.startswith("    ") for part in rest)
    assert "\\n" in line("text", "Stats:\n%(stats)s", {"stats": shown})


# What is hidden


@pytest.mark.parametrize(
    ("text", "logged"),
    [
        ("https://user:pw@a.example/x", "https://…@a.example/x"),
        ("https://user@a.example", "https://…@a.example"),
        ("//user:p@w@a.example:80/@me", "//…@a.example:80/@me"),
        ("HTTP:/\\user:pw@a.example", "HTTP:/\\…@a.example"),
        ("https:user:pw@a.example", "https:…@a.example"),
        ("postgresql://me:pw@db/crawl", "postgresql://…@db/crawl"),
        ("http://us\ter:p\nw@a.example", "http://…@a.example"),
        ("http://user:p/w?x#y@a.example/", "http://…@a.example/"),
        ("http://a;sig=x@b;c=1 http://a&token:@b", "http://…sig=…;c=1 http://…token:…"),
        ("?u=http%3A%2F%2Fme%3Apw%40a.example%2F&x=1", "?u=http%3A%2F%2F…%40a.example%2F&x=1"),
        ("?u=http://me:pw@a.example/&x=1", "?u=http://…@a.example/&x=1"),
        ("/x?token=a&page=2", "/x?token=…&page=2"),
        ("?sv=2&sig=a%26b%3D&se=1", "?sv=2&sig=…&se=1"),
        ("(token=a), [secret=b].", "(token=…), [secret=…]."),
        ("'http://h/?token=a', 7", "'http://h/?token=…', 7"),
        ('{"url":"http://h/?token=a","id":7}', '{"url":"http://h/?token=…","id":7}'),
        ('{"password": "a \\" b", "id": 1}', '{"password": "…", "id": 1}'),
        ("{\\\"secret\\\": \\\"a'b\\\", x}", "{\\\"secret\\\": \\\"…\\\", x}"),
        ("secret = 'a b' + c", "secret = '…' + c"),
        ("secret: 'never ends", "secret: '…"),
        ("assert token == 'a'", "assert token == '…'"),
        ("ES_PASSWORD is 'a b': expected", "ES_PASSWORD is '…': expected"),
        ("Authorization: Basic dTpw\nX: 1", "Authorization: Basic …\nX: 1"),
        ("authorization: Digest a, b", "authorization: …"),
        ("{'Authorization': 'Bearer a', 'X': 1}", "{'Authorization': 'Bearer …', 'X': 1}"),
        ("{b'Cookie': [b'a=1', b'b'], b'X': 1}", "{b'Cookie': […], b'X': 1}"),
        ("Set-Cookie: a=\"1\"; b=2", "Set-Cookie: …"),
        ("PRIVATE-TOKEN: a; b", "PRIVATE-TOKEN: …; b"),
        ("AccountName=a;AccountKey=b==;Suffix=c", "AccountName=a;AccountKey=…;Suffix=c"),
    ],
)  # fmt: skip
def test_secrets_are_hidden_and_what_is_around_them_stays(text: str, logged: str):
    assert redacted_text(text) == logged


@pytest.mark.parametrize(
    "text",
    [
        "http://a.example:80/@me http://[::1]:80/@me http://a.example/:x@y",
        "https://a.example/npm/vue@3, mailto:me@a.example, git@a.example:me/it",
        "http://a.example: refused by b@c",
        "/x?key=a&code=b&page=2&id=3&se=4",
        "design=1 assigned: me; tokens=7 passwords",
        "token=, token: ) secret",
        "2026-11-21 14:14:02 the cookie is stale",
        "-a url is 'file:///etc/passwd': expected an http or https address",
    ],
)
def test_what_is_no_secret_stays(text: str):
    assert redacted_text(text) == text


@given(st.sampled_from(NAMES), st.sampled_from(FORMS), st.booleans(), letters, letters)
def test_no_named_secret_is_left(name: str, form: str, upper: bool, before: str, after: str):
    secret = f"{before}Kanari{after}".replace("%5C", "").replace("%22", "")
    text = form.format(n=name.upper() if upper and name != "sasToken" else name, c=secret)

    assert "Kanari" not in redacted_text(text)
    assert "Kanari" not in redacted_text(f"a {text} b")


@given(
    st.sampled_from(["http://", "//", "https:", "HTTP:\\\\", "ftp:///"]), letters, letters, letters
)
def test_no_user_information_is_left(start: str, user: str, before: str, after: str):
    user = re.sub("[:/?@]", "", user)
    secret = re.sub("[/?]", "", f"{before}Kanari{after}")

    assert "Kanari" not in redacted_text(f"see {start}{user}:{secret}@a.example/x and go on")


@given(st.text(alphabet="x /?#", min_size=1), st.text(alphabet="x/?#"))
def test_a_password_that_breaks_a_url_is_not_left(before: str, after: str):
    assert "Kanari" not in redacted_text(f"//me:x{before.replace(' ', '')}Kanari{after}@a.example")


@given(st.text(alphabet="/\\:@?&='\"[]{}, \n%2F40tokensigcookie") | st.text())
def test_what_is_redacted_stays_as_it_is(text: str):
    once = redacted_text(text)

    assert redacted_text(once) == once


@pytest.mark.long(but=3)
@pytest.mark.parametrize(
    "part",
    [
        "a", "/", "\\", "http:", "//a:x", "token=", 'token="', 'token=\\"', "sig", "token= ",
        "authorization:", "cookie: ['a',", "%2F%2F", "//@", "'token', '", "token\\", "@", "\x1b",
    ],
)  # fmt: skip
def test_hostile_text_costs_no_more_than_its_length(part: str):
    """Each of these would take hours if anything were read twice over."""
    text = (part * (1_000_000 // len(part) + 1))[:1_000_000]

    assert len(redacted_line(text)) <= LONGEST


def test_quotes_of_falling_depth_cost_no_more_than_their_length():
    redacted_line("".join("token=" + "\\" * depth + '"' for depth in range(1400, 0, -1)))


# Where lines go


@pytest.mark.parametrize("value", ["xml", "", "%(message)s", None])
def test_another_format_is_refused(root: logging.Logger, value: object):
    with pytest.raises(SettingError) as caught:
        Logs.update_pre_crawler_settings(settings(LOG_FORMAT=value))

    assert str(caught.value) == f"LOG_FORMAT is {value!r}: expected one of text, json"
    assert setting_value({"LOG_FORMAT": " JSON "}, "LOG_FORMAT") == "json"


def test_lines_go_to_standard_error_from_the_level_on(root: logging.Logger, capfd):
    Logs.install(settings(LOG_FORMAT="json", LOG_LEVEL="WARNING"))
    logging.getLogger("a").info("low")
    logging.getLogger("a").warning("high")

    [logged] = capfd.readouterr().err.splitlines()
    assert json.loads(logged)["event"] == "high"


def test_lines_go_to_a_file_in_any_encoding(root: logging.Logger, tmp_path: Path, capfd):
    file = tmp_path / "crawl.log"
    file.write_text("before\n")
    for kind in FORMATS:
        Logs.install(settings(LOG_FILE=str(file), LOG_FORMAT=kind, LOG_ENCODING="latin-1"))
        logging.getLogger("a").info("ü 日 token=x")

    before, text, data = file.read_text(encoding="latin-1").splitlines()
    assert before == "before"
    assert text.endswith("[a] INFO: ü \\u65e5 token=\\u2026")
    assert json.loads(data)["event"] == "ü 日 token=…"
    assert capfd.readouterr().err == ""


def test_a_file_may_be_begun_anew_and_survives_scrapys_configuration(
    root: logging.Logger, tmp_path: Path
):
    """logging.config closes every handler there is."""
    file = tmp_path / "crawl.log"
    file.write_text("before\n")
    asked = settings(LOG_FILE=str(file), LOG_FILE_APPEND=False)
    Logs.update_pre_crawler_settings(asked)
    logging.getLogger("a").info("one")

    scrapy_log.configure_logging(asked)
    Logs().update_settings(asked.copy())
    logging.getLogger("a").info("two")

    assert [logged[-3:] for logged in file.read_text().splitlines()] == ["one", "two"]


@pytest.mark.parametrize("given", [True, False])
def test_scrapy_installs_no_handler_of_its_own(root: logging.Logger, given: bool):
    """It would take LOG_FORMAT for a %-format, and fail."""
    asked = settings(LOG_FORMAT="json")
    asked.set("LOG_INSTALL_ROOT_HANDLER", given, priority="cmdline")
    handlers = len(root.handlers)

    Logs.update_pre_crawler_settings(asked)
    scrapy_log.configure_logging(asked)

    assert len(root.handlers) == handlers + 1
    assert scrapy_log.get_scrapy_root_handler() is None
    assert root.level == logging.NOTSET


def test_a_handler_of_scrapys_that_is_there_gives_way(root: logging.Logger):
    scrapy_log.configure_logging({"LOG_FORMAT": "%(message)s"})
    theirs = scrapy_log.get_scrapy_root_handler()

    Logs.install(settings())

    assert theirs not in root.handlers
    assert scrapy_log.get_scrapy_root_handler() is None


def test_a_spiders_own_settings_count_and_the_same_change_nothing(root: logging.Logger):
    Logs.install(settings())
    first = Logs._handler
    Logs().update_settings(settings())
    assert Logs._handler is first

    Logs().update_settings(settings(LOG_LEVEL="ERROR"))

    assert first not in root.handlers
    assert Logs._handler.level == logging.ERROR


def test_requests_of_the_client_of_elasticsearch_are_no_news(root: logging.Logger, capfd):
    for level in ("INFO", "DEBUG"):
        Logs.install(settings(LOG_LEVEL=level))
        logging.getLogger("elastic_transport.transport").info(f"POST at {level}")
        logging.getLogger("elastic_transport.transport").warning("odd")

    logged = [line.rpartition(": ")[2] for line in capfd.readouterr().err.splitlines()]
    assert logged == ["odd", "POST at DEBUG", "odd"]


def test_no_advice_to_store_bodies_that_were_cut_is_passed_on(root: logging.Logger, capfd):
    """It comes once for each process, and contradicts ADR 20."""
    logger = logging.getLogger("scrapy.core.downloader.handlers.http11")
    Logs.install(settings(LOG_LEVEL="WARNING"))
    logger.warning(get_dataloss_msg("http://a.example/"))
    logger.warning("odd")
    logging.getLogger("a").warning("Got data loss in a")

    logged = [line.rpartition(": ")[2] for line in capfd.readouterr().err.splitlines()]
    assert logged == ["odd", "Got data loss in a"]


def test_a_log_that_is_switched_off_says_nothing(root: logging.Logger, capfd):
    Logs.install(settings(LOG_ENABLED=False))
    logging.getLogger("a").error("oops")

    assert capfd.readouterr().err == ""


def test_short_names_are_scrapys_only(root: logging.Logger, capfd):
    Logs.install(settings(LOG_SHORT_NAMES=True))
    for name in ("scrapy.core.engine", "scrapy", "smartcrawl.run.run"):
        logging.getLogger(name).info("x")

    logged = capfd.readouterr().err
    assert re.findall(r"\[(.*?)\]", logged) == ["scrapy", "scrapy", "smartcrawl.run.run"]
