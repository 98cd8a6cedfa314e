"""Content-Encoding that lies, ends early, or swells; the bombs are built by repetition."""

import gzip
import struct
import zlib
from collections.abc import Callable
from functools import cache, partial

import brotli
from backports import zstd

from tests.hostile.kinds import (
    BAD_CODING,
    CUT_CODING,
    KEEP,
    NEW,
    TOO_LARGE,
    Answer,
    Ask,
    Kind,
    Script,
    page,
    trap,
    whole,
)

kind = partial(Kind, "coding")

_MIB = 1024 * 1024
_BOMB = 1024  #: MiB of zeros

Pack = Callable[[bytes], bytes]


def _zip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _packed(coding: str, *packs: Pack, body: Callable[[Ask], bytes] = page) -> Answer:
    """A page under a Content-Encoding, packed by these in turn."""

    def answer(ask: Ask) -> Script:
        data = body(ask)
        for pack in packs:
            data = pack(data)
        return whole(data, *(f"Content-Encoding: {word}" for word in coding.split("|"))), KEEP

    return answer


def _broken(coding: str, *packs: Pack) -> Answer:
    return _packed(coding, *packs, body=trap)


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _damaged(data: bytes) -> bytes:
    """Flip bits in the middle."""
    at = len(data) // 2
    return data[:at] + bytes(byte ^ 0xFF for byte in data[at : at + 8]) + data[at + 8 :]


def _wrong_sum(data: bytes) -> bytes:
    return data[:-8] + bytes(4) + data[-4:]


def _named(data: bytes) -> bytes:
    """gzip with a name, a comment, extra bytes and a header checksum."""
    header = b"\x1f\x8b\x08\x1e\0\0\0\0\0\x03" + b"\x05\0abcde" + b"../../x\0" + b"comment\0"
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    return header + _zip(data)[10:]


def _skippable(data: bytes) -> bytes:
    return b"\x50\x2a\x4d\x18" + struct.pack("<I", 5) + b"hello" + zstd.compress(data)


def _bomb(coding: str, made: Callable[[], bytes]) -> Answer:
    return lambda ask: (whole(made(), f"Content-Encoding: {coding}"),)


@cache
def deflate_bomb(wbits: int) -> bytes:
    packer = zlib.compressobj(9, wbits=wbits)
    start = packer.compress(bytes(_MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(_MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + again * (_BOMB - 1) + b"\x03\0" + bytes(8)


@cache
def gzip_members_bomb() -> bytes:
    return gzip.compress(bytes(_MIB), mtime=0) * _BOMB


@cache
def nested_bomb() -> bytes:
    return gzip.compress(deflate_bomb(31), mtime=0)


@cache
def brotli_bomb() -> bytes:
    packer = brotli.Compressor(quality=1)
    many = bytes(16 * _MIB)
    packed = b"".join(packer.process(many) for _ in range(_BOMB // 16))
    return packed + packer.finish()


@cache
def zstd_bomb(window: int = 17) -> bytes:
    """One frame of blocks that each repeat a byte 128 KiB times (RFC 8878, section 3.1)."""
    block = 128 * 1024
    header = struct.pack("<I", block << 3 | 1 << 1)[:3] + b"\0"
    frame = b"\x28\xb5\x2f\xfd\0" + bytes([(window - 10) << 3])
    return frame + header * (8 * _BOMB) + b"\x01\0\0"


KINDS = (
    kind("gzip", "gzip as it should be", _packed("gzip", _zip), NEW),
    kind("deflate_zlib", "deflate in its wrapping", _packed("deflate", zlib.compress), NEW),
    kind("deflate_bare", "deflate without", _packed("deflate", _bare_deflate), NEW),
    kind("br", "Brotli as it should be", _packed("br", brotli.compress), NEW),
    kind("zstd", "Zstandard as it should be", _packed("zstd", zstd.compress), NEW),
    kind("upper_case", "GZIP", _packed("GZIP", _zip), NEW),
    kind("x_gzip", "x-gzip", _packed("x-gzip", _zip), NEW),
    kind("gzip_br", "gzip, and Brotli around it", _packed("gzip, br", _zip, brotli.compress), NEW),
    kind("gzip_twice", "gzip twice, announced twice", _packed("gzip, gzip", _zip, _zip), NEW),
    kind("two_lines", "gzip and Brotli in a line each",
         _packed("gzip|br", _zip, brotli.compress), NEW),
    kind("gzip_members", "gzip in two members",
         _packed("gzip", lambda data: _zip(data[:50]) + _zip(data[50:])), NEW),
    kind("gzip_header", "gzip with every optional field", _packed("gzip", _named), NEW),
    kind("gzip_garbage_behind", "gzip and something behind it",
         _packed("gzip", lambda data: _zip(data) + b"<!-- cached -->"), NEW),
    kind("zstd_skippable", "Zstandard behind a frame to skip", _packed("zstd", _skippable), NEW),
    kind("gzip_once_of_two", "gzip twice, announced once", _broken("gzip", _zip, _zip),
         BAD_CODING),
    kind("gzip_of_nothing", "gzip of no bytes at all", _packed("gzip", lambda _: b""), NEW),
    kind("gzip_of_empty", "gzip of an empty page", _packed("gzip", lambda _: _zip(b"")), NEW),
    # No coding at all
    kind("gzip_plain", "gzip is announced, and it is plain", _broken("gzip"), BAD_CODING),
    kind("deflate_plain", "likewise deflate", _broken("deflate"), BAD_CODING),
    kind("br_plain", "likewise Brotli", _broken("br"), BAD_CODING),
    kind("zstd_plain", "likewise Zstandard", _broken("zstd"), BAD_CODING),
    kind("identity", "Content-Encoding: identity", _packed("identity"), NEW),
    kind("none", "Content-Encoding: none", _packed("none"), NEW),
    kind("utf_8", "Content-Encoding: utf-8", _packed("utf-8"), NEW),
    kind("empty", "Content-Encoding without a value", _packed(""), NEW),
    kind("foo_plain", "Content-Encoding: foo, and it is plain", _packed("foo"), NEW),
    kind("foo_binary", "Content-Encoding: foo, and it is not", _broken("foo", _zip), BAD_CODING),
    kind("compress", "a coding of 1984", _broken("compress", lambda _: b"\x1f\x9d\x90abc\0"),
         BAD_CODING),
    kind("dictionary", "a dictionary that nobody has", _broken("dcb", brotli.compress), BAD_CODING),
    kind("gzip_is_br", "gzip is announced, and it is Brotli",
         _broken("gzip", brotli.compress), BAD_CODING),
    kind("br_is_gzip", "Brotli is announced, and it is gzip", _broken("br", _zip), BAD_CODING),
    kind("one_of_two", "gzip twice is announced, and it is once",
         _broken("gzip, gzip", _zip), BAD_CODING),
    kind("ten", "ten codings", _broken(", ".join(["gzip"] * 10), *[_zip] * 10), BAD_CODING),
    # Damaged
    *(
        kind(f"{word}_{name}", f"{word} that is {name}", _broken(word, pack, harm), told)
        for word, pack in (
            ("gzip", _zip), ("deflate", zlib.compress), ("br", brotli.compress),
            ("zstd", zstd.compress),
        )
        for name, harm, told in (
            ("cut", _half, CUT_CODING), ("damaged", _damaged, BAD_CODING),
        )
    ),
    kind("gzip_cut_in_header", "five bytes of gzip",
         _broken("gzip", _zip, lambda data: data[:5]), CUT_CODING),
    kind("gzip_cut_in_sum", "gzip without the end of its checksum",
         _broken("gzip", _zip, lambda data: data[:-3]), CUT_CODING),
    kind("gzip_wrong_sum", "gzip with a wrong checksum",
         _broken("gzip", _zip, _wrong_sum), BAD_CODING),
    kind("gzip_second_cut", "gzip whose second member is cut",
         _broken("gzip", lambda data: _zip(data) + _zip(data)[:30]), CUT_CODING),
    kind("zstd_garbage_behind", "Zstandard and something behind it",
         _broken("zstd", lambda data: zstd.compress(data) + b"<!-- cached -->"), BAD_CODING),
    kind("br_garbage_behind", "Brotli and something behind it",
         _broken("br", lambda data: brotli.compress(data) + b"<!-- cached -->"), BAD_CODING),
    kind("gzip_members_20000", "20,000 empty members of gzip",
         _broken("gzip", lambda _: _zip(b"") * 20_000), BAD_CODING),
    # Bombs
    kind("gzip_bomb", "1 GB of zeros", _bomb("gzip", lambda: deflate_bomb(31)), TOO_LARGE),
    kind("gzip_members_bomb", "1 GB of zeros in 1,024 members",
         _bomb("gzip", gzip_members_bomb), TOO_LARGE),
    kind("deflate_bomb", "1 GB of zeros", _bomb("deflate", lambda: deflate_bomb(15)), TOO_LARGE),
    kind("br_bomb", "1 GB of zeros", _bomb("br", brotli_bomb), TOO_LARGE),
    kind("zstd_bomb", "1 GB of zeros", _bomb("zstd", zstd_bomb), TOO_LARGE),
    kind("nested_bomb", "1 GB of zeros, packed twice",
         _bomb("gzip, gzip", nested_bomb), TOO_LARGE),
    kind("zstd_window", "Zstandard that wants 1 GB to look back",
         _bomb("zstd", lambda: zstd_bomb(30)), BAD_CODING),
)  # fmt: skip
