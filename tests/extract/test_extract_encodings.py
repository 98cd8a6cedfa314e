"""Content-Encoding is undone whole or not at all, and never beyond the limit."""

import gzip
import random
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.extract.encodings import (
    ACCEPTED,
    MAX_CODINGS,
    MAX_MEMBERS,
    EncodingError,
    decode_encodings,
)
from smartcrawl.model.exceptions import SmartcrawlError

PAGE = b"<!doctype html><title>A page</title><p>Some words, and some more words."
NOISE = random.Random(1).randbytes(400_000)
BOMB = 1 << 30  #: bytes of zeros


def bare(body: bytes) -> bytes:
    """Return bare deflate, without the wrapping that RFC 9110 asks for."""
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(body) + stream.flush()


def checked(body: bytes) -> bytes:
    return zstd.compress(body, options={zstd.CompressionParameter.checksum_flag: 1})


PACKERS = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": checked}
PACKED = [*PACKERS.items(), ("deflate", bare)]
every_packer = pytest.mark.parametrize(("coding", "pack"), PACKED, ids=[*PACKERS, "bare deflate"])
every_coding = pytest.mark.parametrize("coding", PACKERS)


def kind(body: bytes, *words: str, limit: int = 0) -> str:
    """Return what is wrong with a body, after it was shown that it is refused."""
    with pytest.raises(EncodingError) as caught:
        decode_encodings(body, words, limit=limit)
    assert isinstance(caught.value, SmartcrawlError)
    return caught.value.kind


def skippable(size: int) -> bytes:
    """Return a zstd frame that holds something for somebody else."""
    return b"\x50\x2a\x4d\x18" + size.to_bytes(4, "little") + bytes(size)


def frame(descriptor: int, window: bytes) -> bytes:
    """Return an empty zstd frame with a header of one's own."""
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + window + b"\x01\x00\x00"


# Whole


@every_packer
def test_each_coding_is_undone(coding, pack):
    assert decode_encodings(pack(PAGE), [coding], limit=0) == PAGE
    assert decode_encodings(pack(PAGE), [f" {coding.upper()} "], limit=len(PAGE)) == PAGE
    assert decode_encodings(pack(b""), [coding], limit=1) == b""


def test_what_is_accepted_is_what_is_undone():
    assert ACCEPTED.decode().split(", ") == list(PACKERS)


def test_gzip_has_a_second_name():
    assert decode_encodings(gzip.compress(PAGE), ["X-GZip"], limit=0) == PAGE


@pytest.mark.parametrize("order", [("gzip", "br"), ("br", "gzip"), ("zstd", "deflate", "gzip")])
def test_the_last_coding_is_undone_first(order):
    body = PAGE
    for coding in order:
        body = PACKERS[coding](body)

    assert decode_encodings(body, order, limit=0) == PAGE
    # The other way round it is noise: by its first bytes, the time in a gzip, it may seem cut off.
    assert kind(body, *reversed(order)) in ("corrupt", "truncated")


@given(
    st.binary(max_size=300),
    st.integers(1, 2000),
    st.lists(st.sampled_from(PACKED), max_size=MAX_CODINGS),
)
def test_what_was_packed_comes_back(body, times, packed):
    body = whole = body * times
    for _, pack in packed:
        body = pack(body)

    assert decode_encodings(body, [coding for coding, _ in packed], limit=0) == whole


@pytest.mark.long(but=2)
@every_coding
def test_large_bodies_come_back(coding):
    """More than is given to a decoder, or asked of it, at once; packed well and badly."""
    noise = zlib.compress(bytes(range(256)) * 9, 0) * 99
    for whole in (bytes(5_000_000), PAGE * 9_999, noise, NOISE, bytes(65_536), bytes(131_072)):
        packed = PACKERS[coding](whole)
        assert decode_encodings(packed, [coding], limit=len(whole)) == whole
        for outer, pack in PACKERS.items():
            assert decode_encodings(pack(packed), [coding, outer], limit=0) == whole


@every_packer
def test_a_body_may_refer_as_far_back_as_its_coding_allows(coding, pack):
    whole = NOISE[:32_000] * 2

    assert len(pack(whole)) < 40_000
    assert decode_encodings(pack(whole), [coding], limit=0) == whole


@pytest.mark.parametrize("words", [(), ("",), ("identity",), (" Identity ", "")])
def test_no_coding_leaves_a_body_as_it_is(words):
    body = bytes(range(256))

    assert decode_encodings(body, words, limit=256) is body
    assert kind(body, *words, limit=255) == "too_large"


@pytest.mark.parametrize("words", [("gzip",), ("br", "zstd"), ("compress",), ("br",) * 9])
def test_an_empty_body_is_empty_in_any_coding(words):
    assert decode_encodings(b"", words, limit=1) == b""


def test_a_body_that_becomes_empty_midway_is_empty():
    assert decode_encodings(gzip.compress(b""), ["br", "gzip"], limit=0) == b""


# Words that are no coding


@pytest.mark.parametrize(
    "word",
    ["none", "utf-8", "UTF8", "binary", "text/html", "8bit", "chunked", "gzip;q=1", "x" * 999],
)
@pytest.mark.parametrize(
    "body",
    [
        PAGE,
        "grün\t\r\n\f\x1b".encode("cp1252"),
        "grün".encode("utf-16"),
        b"\xfe\xff\0a",
        b"\xef\xbb\xbf\0",
        b"a" * 1445 + b"\0",
    ],
)
def test_words_that_are_no_coding_are_passed_over_for_text(word, body):
    assert decode_encodings(body, [word], limit=0) == body
    assert decode_encodings(gzip.compress(body), ["identity", word, "gzip"], limit=0) == body
    assert decode_encodings(gzip.compress(body), ["gzip", word], limit=0) == body


@pytest.mark.parametrize("octet", [*range(9), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20)])
def test_words_that_are_no_coding_are_unknown_for_what_is_no_text(octet):
    body = b"text" + bytes([octet])

    assert kind(body, "none") == "unknown"
    assert kind(b"a" * 1440 + body, "none") == "unknown"
    assert kind(gzip.compress(body), "none", "gzip") == "unknown"
    assert decode_encodings(body, ["identity"], limit=0) == body


def test_packed_bytes_under_a_word_that_is_no_coding_are_unknown():
    assert kind(gzip.compress(PAGE), "none") == "unknown"
    assert kind(checked(PAGE), "utf-8") == "unknown"


@pytest.mark.parametrize(
    "word", ["compress", "X-Compress", "dcb", "dcz", "exi", "aes128gcm", "pack200-gzip"]
)
def test_codings_that_nobody_asked_for_are_unknown_whatever_the_body(word):
    assert kind(PAGE, word) == "unknown"
    assert kind(gzip.compress(PAGE), word, "gzip") == "unknown"
    with pytest.raises(EncodingError, match=repr(word.lower())):
        decode_encodings(PAGE, [word], limit=0)


def test_more_codings_than_three_are_corrupt():
    body = PAGE
    for _ in range(MAX_CODINGS):
        body = gzip.compress(body)

    assert decode_encodings(body, ["gzip", "", "identity", "none", *["gzip"] * 2], limit=0) == PAGE
    assert kind(gzip.compress(body), *["gzip"] * (MAX_CODINGS + 1)) == "corrupt"


# Cut


@every_packer
@pytest.mark.parametrize("body", [PAGE, b"a", bytes(200_000)], ids=["page", "a", "zeros"])
def test_a_body_that_ends_early_is_truncated(coding, pack, body):
    packed = pack(body)

    for length in range(1, len(packed)):
        assert kind(packed[:length], coding) == "truncated", length
        assert kind(gzip.compress(packed[:length]), coding, "gzip") == "truncated", length


@every_packer
def test_an_outer_coding_that_ends_early_is_truncated_though_the_inner_is_whole(coding, pack):
    """The last bytes of the outer one are its checksum, or an end that holds nothing."""
    for outer in (gzip.compress, zlib.compress, checked):
        packed = outer(pack(PAGE))
        name = {gzip.compress: "gzip", zlib.compress: "deflate"}.get(outer, "zstd")
        for missing in range(1, 5):
            assert kind(packed[:-missing], coding, name) == "truncated"


@pytest.mark.parametrize(
    ("coding", "one", "two"),
    [
        ("gzip", gzip.compress(PAGE, mtime=0), gzip.compress(b"more", mtime=0)),
        ("zstd", checked(PAGE), zstd.compress(b"more")),
        ("zstd", checked(PAGE), skippable(9) + zstd.compress(b"more")),
    ],
)
def test_further_members_and_frames_belong_to_the_body(coding, one, two):
    assert decode_encodings(one + two, [coding], limit=0) == PAGE + b"more"
    assert decode_encodings(two + one, [coding], limit=0) == b"more" + PAGE
    whole_without = {len(one), len(one) + two.find(b"\x28\xb5\x2f\xfd")}
    for length in range(1, len(one + two)):
        if length not in whole_without:
            assert kind((one + two)[:length], coding) == "truncated", length


def test_a_frame_for_somebody_else_holds_nothing():
    assert (
        decode_encodings(skippable(70_000) + checked(PAGE) + skippable(0), ["zstd"], limit=0)
        == PAGE
    )
    assert decode_encodings(skippable(5), ["zstd"], limit=0) == b""


@pytest.mark.parametrize(
    ("coding", "member"), [("gzip", gzip.compress(b"", mtime=0)), ("zstd", zstd.compress(b""))]
)
def test_empty_members_are_not_read_for_ever(coding, member):
    last = PACKERS[coding](PAGE)

    assert decode_encodings(member * (MAX_MEMBERS - 1) + last, [coding], limit=0) == PAGE
    assert kind(member * MAX_MEMBERS + last, coding) == "corrupt"


# What follows


@pytest.mark.parametrize("size", [1, 8, 9, 70_000])
@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_what_follows_a_checked_stream_is_passed_over(pack, size):
    coding = "gzip" if pack is gzip.compress else "deflate"
    for rest in (bytes(size), b"\n" * size, b"\x1f" + b"x" * size):
        assert decode_encodings(pack(PAGE) + rest, [coding], limit=0) == PAGE


@pytest.mark.parametrize("zeros", [1, 511, 16_384, 70_000])
def test_zeros_may_stand_between_members_and_after_them(zeros):
    padding = bytes(zeros)
    body = gzip.compress(PAGE) + padding + gzip.compress(b"more") + padding

    assert decode_encodings(body, ["gzip"], limit=0) == PAGE + b"more"
    assert kind(body[: -zeros - 1], "gzip") == "truncated"


def test_the_check_of_zlib_or_gzip_may_follow_bare_deflate():
    for size in range(1, 9):
        assert decode_encodings(bare(PAGE) + b"x" * size, ["deflate"], limit=0) == PAGE
    for size in (9, 70_000):
        assert kind(bare(PAGE) + b"x" * size, "deflate") == "corrupt"


@pytest.mark.parametrize("coding", ["br", "zstd"])
@pytest.mark.parametrize("whole", [PAGE, bytes(16_384 * 3), b""], ids=["page", "zeros", "nothing"])
def test_nothing_may_follow_brotli_or_zstd(coding, whole):
    for rest in (b"\0", b"\n", b"garbage", b"x" * 70_000):
        assert kind(PACKERS[coding](whole) + rest, coding) == "corrupt"


def test_nothing_may_follow_brotli_though_it_ends_where_a_piece_ends():
    """The library tells of what follows within a piece only."""
    packed = brotli.compress(PAGE)
    last = gzip.compress(packed, 0) + gzip.compress(b"x")

    assert decode_encodings(gzip.compress(packed, 0), ["br", "gzip"], limit=0) == PAGE
    assert kind(last, "br", "gzip") == "corrupt"


# Damaged


@every_packer
def test_a_changed_byte_is_never_passed_over_where_there_is_a_checksum(coding, pack):
    packed = pack(PAGE * 9)
    kinds = set()
    for place in range(len(packed)):
        broken = packed[:place] + bytes([packed[place] ^ 0x55]) + packed[place + 1 :]
        try:
            got = decode_encodings(broken, [coding], limit=0)
        except EncodingError as error:
            kinds.add(error.kind)
        else:  # what a header says of time and system is not checked
            assert pack in (bare, brotli.compress) or got == PAGE * 9
    assert "corrupt" in kinds
    assert kinds <= {"corrupt", "truncated"}


@pytest.mark.parametrize("place", range(-8, 0))
def test_a_wrong_checksum_or_length_of_gzip_is_corrupt(place):
    packed = bytearray(gzip.compress(PAGE))
    packed[place] ^= 1

    assert kind(bytes(packed), "gzip") == "corrupt"


@pytest.mark.parametrize("coding", ["deflate", "zstd"])
@pytest.mark.parametrize("place", range(-4, 0))
def test_a_wrong_checksum_is_corrupt(coding, place):
    packed = bytearray(PACKERS[coding](PAGE))
    packed[place] ^= 1

    assert kind(bytes(packed), coding) == "corrupt"


@every_coding
@pytest.mark.parametrize(
    "body",
    [
        PAGE,
        b"\n\n<html><head><title>",
        b"Lorem ipsum dolor sit amet",  # Brotli reads it as a long piece of no data, cut short
        b"less than before",
        b'{"items": [1, 2, 3]}',
        b"3 items were found",
        b"\x89PNG\r\n\x1a\n" + bytes(99),
    ],
)
def test_a_body_that_is_not_in_its_coding_is_corrupt_and_told_so(coding, body):
    assert kind(body, coding) == "corrupt"
    with pytest.raises(EncodingError, match=f"'{coding}', (is plain text|cannot be unpacked)"):
        decode_encodings(body, [coding], limit=0)


def test_a_short_body_that_is_not_in_its_coding_is_refused():
    assert kind(b"Lorem ipsum dol", "br") == "truncated"
    assert kind(b"Lorem ipsum dolo", "br") == "corrupt"
    assert kind(b" Lorem\tipsum\r\n\f~", "br") == "corrupt"
    for octet in b"\x1f", b"\x7f", b"\x80", b"\0", b"\x0b":
        assert kind(b"Lorem ipsum dol" + octet, "br") == "truncated"
    assert kind(b"<", "gzip") == "truncated"
    assert kind(b"<h", "gzip") == "corrupt"
    assert kind(zlib.compress(PAGE), "gzip") == "corrupt"
    assert kind(gzip.compress(PAGE), "deflate") == "corrupt"
    assert kind(b"<", "zstd") == "corrupt"


@pytest.mark.parametrize(
    "head", [b"\x78\x9d", b"\x88\x1c", b"\x79\x9c", b"\x78\xbb"], ids=["%31", "32K", "CM", "dict"]
)
def test_a_wrapping_of_zlib_that_is_none_or_wants_a_dictionary_is_corrupt(head):
    assert kind(head + zlib.compress(PAGE)[2:], "deflate") == "corrupt"


@pytest.mark.parametrize("first", [n for n in range(256) if n & 0b110 == 0])
def test_bare_deflate_is_what_has_no_good_head_of_zlib(first):
    """A stored block may begin with any bits but the lowest three, and then tells its size."""
    for size in range(1, 63):
        stored = size.to_bytes(2, "little") + (0xFFFF - size).to_bytes(2, "little") + bytes(size)
        body = bytes([first]) + stored + (b"" if first & 1 else bare(b""))
        compression, window, check = first & 0x0F, first >> 4, (256 * first + size) % 31
        if (compression, check) == (8, 0) and window <= 7:
            assert kind(body, "deflate") in ("corrupt", "truncated")
        else:
            assert decode_encodings(body, ["deflate"], limit=0) == bytes(size)


@pytest.mark.parametrize("bits", range(9, 16))
def test_zlib_may_look_back_as_far_as_it_says(bits):
    stream = zlib.compressobj(wbits=bits)

    assert decode_encodings(stream.compress(PAGE) + stream.flush(), ["deflate"], limit=0) == PAGE


def read(body: bytes, words: list[str], limit: int) -> str:
    """Return what becomes of a body: its kind of error, or nothing; it may raise no other."""
    try:
        assert len(decode_encodings(body, words, limit=limit)) <= (limit or 1 << 40)
    except EncodingError as error:
        return error.kind
    return ""


@given(st.binary(max_size=200), st.lists(st.sampled_from([*PACKERS, "none", "dcz"]), max_size=4))
def test_arbitrary_bytes_are_read_or_refused(body, words):
    kinds = {read(body, words, limit) for limit in (0, 100)}

    assert kinds <= {"", "too_large", "truncated", "corrupt", "unknown"}


HEADS = [b"\x1f\x8b\x08\0\0\0\0\0\0\0", b"\x78\x9c", b"\x0b\x02", b"\x28\xb5\x2f\xfd\x00\x58", b""]


@given(st.sampled_from(HEADS), st.binary(max_size=300), st.sampled_from([*PACKERS]))
def test_arbitrary_bytes_behind_a_good_head_are_read_or_refused(head, rest, coding):
    assert read(head + rest, [coding], 1000) in ("", "too_large", "truncated", "corrupt")


# Too large


@every_packer
def test_the_limit_is_a_size_that_is_still_read(coding, pack):
    for size in (2, 999, 65_536, 65_537, 300_000):
        packed = pack(bytes(size))
        assert decode_encodings(packed, [coding], limit=size) == bytes(size)
        assert kind(packed, coding, limit=size - 1) == "too_large"


@every_packer
def test_too_large_is_told_before_what_is_wrong_behind_it(coding, pack):
    """Nothing is read beyond the limit."""
    packed = pack(NOISE)

    assert kind(packed[:-3], coding) == "truncated"
    assert kind(packed[:-3], coding, limit=200_000) == "too_large"


def test_every_step_obeys_the_limit():
    inner = gzip.compress(bytes(3_000_000))

    assert len(inner) < 10_000
    assert kind(inner, "gzip", limit=100_000) == "too_large"
    assert kind(brotli.compress(inner), "gzip", "br", limit=100_000) == "too_large"
    hidden = gzip.compress(b"") + bytes(3_000_000)  # a small page in a large wrapping
    assert decode_encodings(hidden, ["gzip"], limit=100_000) == b""
    assert kind(brotli.compress(hidden), "gzip", "br", limit=100_000) == "too_large"


def bomb(coding: str) -> bytes:
    """Return 1 GiB of zeros, packed; gzip and deflate without their checksums."""
    part = bytes(BOMB >> 10)
    match coding:
        case "br":
            stream = brotli.Compressor(quality=1)
            return b"".join([stream.process(part) for _ in range(1 << 10)]) + stream.finish()
        case "zstd":
            frames = zstd.ZstdCompressor(1)
            return b"".join([frames.compress(part) for _ in range(1 << 10)]) + frames.flush()
        case "bare":
            blocks = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
            packed = blocks.compress(part) + blocks.flush(zlib.Z_FULL_FLUSH)
            return packed * (1 << 10) + bare(b"")
        case "deflate":
            return b"\x78\x9c" + bomb("bare")
        case "members":
            return gzip.compress(part) * (1 << 10)
        case _:
            return gzip.compress(b"")[:10] + bomb("bare")


BOMBS = [("bare", "deflate"), ("members", "gzip"), *zip(PACKERS, PACKERS, strict=True)]


@pytest.mark.parametrize(("made", "coding"), BOMBS, ids=[made for made, _ in BOMBS])
@pytest.mark.parametrize("outer", [[], ["gzip"]], ids=["once", "twice"])
def test_a_bomb_is_stopped_at_the_limit_in_little_memory(made, coding, outer):
    packed = bomb(made)
    for name in outer:
        packed = PACKERS[name](packed)
    assert len(packed) < BOMB / 500
    limit = 4 << 20

    tracemalloc.start()
    try:
        assert kind(packed, coding, *outer, limit=limit) == "too_large"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 2 * limit


def test_a_bomb_is_stopped_in_little_memory_of_the_process():
    """What the libraries hold themselves is not seen by tracemalloc."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of a process is told by Linux only")
    program = (
        "import re, tests.extract.test_extract_encodings as t\n"
        "def peak():\n"
        "    return int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "bombs = [(t.bomb(made), coding) for made, coding in t.BOMBS]\n"
        "before = peak()\n"
        "print(*[t.kind(packed, coding, limit=32 << 20) for packed, coding in bombs])\n"
        "print(peak() - before)\n"
    )
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )

    *kinds, grown = result.stdout.split()
    assert kinds == ["too_large"] * len(BOMBS)
    assert 16 << 10 < int(grown) < 64 << 10  # KiB; the limit itself is held


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        ((0x00, bytes([13 << 3])), True),  # 8 MiB
        ((0x00, bytes([(13 << 3) + 1])), False),
        ((0x00, bytes([14 << 3])), False),
        ((0x00, bytes([21 << 3])), False),  # 2 GiB
        ((0x00, bytes([31 << 3])), False),
    ],
)
def test_zstd_may_not_look_back_further_than_8_mib(header, allowed):
    """RFC 9659: a server must not ask for more, and a browser refuses it."""
    if allowed:
        assert decode_encodings(frame(*header), ["zstd"], limit=0) == b""
    else:
        assert kind(frame(*header), "zstd") == "corrupt"


def test_zstd_may_not_announce_a_single_piece_of_more_than_8_mib():
    assert kind(frame(0xE0, (1 << 31).to_bytes(8, "little")), "zstd") == "corrupt"
    long = {zstd.CompressionParameter.window_log: 24}
    stream = zstd.ZstdCompressor(options=long)
    packed = stream.compress(bytes(9 << 20)) + stream.flush()
    assert kind(packed, "zstd") == "corrupt"


@pytest.mark.parametrize(
    ("body", "words", "limit", "message"),
    [
        (
            gzip.compress(PAGE, mtime=0)[:-1],
            ["X-GZIP"],
            0,
            "the body, with Content-Encoding 'gzip', ends early",
        ),
        (
            checked(PAGE),
            ["zstd"],
            9,
            "the body, with Content-Encoding 'zstd', is larger than 9 bytes",
        ),
        (PAGE, [], 9, "the body is larger than 9 bytes"),
        (PAGE, ["gzip", "br"], 0, "the body, with Content-Encoding 'br', is plain text"),
        (
            brotli.compress(PAGE) + b"x",
            ["br"],
            0,
            "the body, with Content-Encoding 'br', cannot be unpacked: brotli: decoder failed",
        ),
        (
            bare(PAGE) + bytes(9),
            ["deflate"],
            0,
            "the body, with Content-Encoding 'deflate', cannot be unpacked: other data follows",
        ),
        (
            gzip.compress(b"", mtime=0) * (MAX_MEMBERS + 1),
            ["gzip"],
            0,
            "the body, with Content-Encoding 'gzip',"
            " cannot be unpacked: it has more than 10000 members",
        ),
        (
            zstd.compress(b"") * (MAX_MEMBERS + 1),
            ["zstd"],
            0,
            "the body, with Content-Encoding 'zstd',"
            " cannot be unpacked: it has more than 10000 frames",
        ),
        (
            PAGE,
            ["br", "gzip", "gzip", "zstd"],
            0,
            "the body, with Content-Encoding 'br', is packed 4 times",
        ),
        (
            b"\0",
            ["x" * 999, "none"],
            0,
            f"the body, with Content-Encoding '{'x' * 40}', is in no coding that smartcrawl knows",
        ),
        (
            b"\0",
            ["dcb"],
            0,
            "the body, with Content-Encoding 'dcb', has a content encoding that "
            "smartcrawl did not request",
        ),
    ],
)
def test_messages_name_the_coding_and_what_is_wrong(body, words, limit, message):
    with pytest.raises(EncodingError) as caught:
        decode_encodings(body, words, limit=limit)

    assert str(caught.value) == message


def test_the_bounds_are_those_of_the_docstring():
    assert (MAX_CODINGS, MAX_MEMBERS) == (3, 10_000)
