"""Parsers fed with mutilated files: an answer or one line, never a traceback, a hang or a stray file."""

import tomllib
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.fuzz.parsers import PARSERS

CRASHES = Path(__file__).parent / "crashes"
TOKENS = [
    b"", b"0", b"-1", b"1e999", b"nan", b"inf", b"-inf", b"1e-400", b"9" * 25, b"true", b'""', b'"x"', b"[]",
    b"{}", b"[[1]]", b"null", b"..", b"../../x", b"/", b"\x00", b"\xff\xfe", b"\n", b",", b'"', b"=", b"[",
    b"]", b"1979-05-27", b"0x1F", "ß".encode(), "\u202e".encode(), b"\r", b"\t", b"=cmd()", b"<script>", b"e",
    b".", b"name", b"kind", b"s3://a:b@c/d", b"file:///etc", b"1_000", b"[" * 3000,
]  # fmt: skip


VALUES = [
    "0", "-1", "1.5", "nan", "inf", "true", '""', '"naive"', "[]", "[1, 'a']", "{}", "{a = 1}", "[{}]",
    "1979-05-27", "[[]]", "9223372036854775807", "1e308", '"trees-99999999999999999999"', "[[{}, 1.0]]",
    "-inf", '"*"', "12:30:00", "5e-324", "[[1, 2], [3, 4]]",
]  # fmt: skip


@st.composite
def mutilated(draw: st.DrawFn, samples: list[bytes]) -> bytes:
    """A good file with a few pieces cut out, doubled or replaced."""
    content = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(content)))
        end = min(len(content), begin + draw(st.sampled_from([0, 1, 2, 5, 20, 200])))
        piece = draw(
            st.one_of(st.sampled_from(TOKENS), st.binary(max_size=6), st.just(content[begin:end] * 2))
        )
        content = content[:begin] + piece + content[end:]
    return content


@pytest.mark.parametrize("name", PARSERS)
def test_a_mutilated_file_is_read_or_refused(name: str) -> None:
    parser, samples = PARSERS[name]

    @settings(derandomize=True, max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
    @given(mutilated(samples))
    @example(b"")
    @example(samples[0])
    def check(content: bytes) -> None:
        parser(content)

    check()


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value within a document."""
    if here:
        yield here
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*here, key))


@st.composite
def odd_values(draw: st.DrawFn, samples: list[bytes]) -> bytes:
    """A document in which values, at any depth, are of any type or missing."""
    document = tomllib.loads(draw(st.sampled_from(samples)).decode())
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(list(places(document)) or [("name",)]))
        table = reduce(lambda found, key: found[key], way, document)
        value = draw(st.sampled_from([None, *VALUES]))
        if value is not None:
            table[last] = tomllib.loads(f"x = {value}")["x"]
        elif isinstance(table, list) or last in table:
            del table[last]
    return tomli_w.dumps(document).encode()


@pytest.mark.parametrize("name", ["config", "schema"])
def test_a_document_of_odd_values_is_read_or_refused(name: str) -> None:
    parser, samples = PARSERS[name]

    @settings(derandomize=True, max_examples=500, deadline=None)
    @given(odd_values(samples))
    def check(content: bytes) -> None:
        parser(content)

    check()


@pytest.mark.parametrize(
    "path", sorted(CRASHES.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_what_once_broke_a_parser(path: Path) -> None:
    PARSERS[path.parent.name][0](path.read_bytes())


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["a", '"a"', "'a' "])
@pytest.mark.parametrize("name", ["config", "schema"])
def test_a_key_of_very_many_parts_is_refused_at_once(name: str, part: str) -> None:
    """Python's TOML reader takes a minute for it (found by fuzzing, as an input of seven kilobytes)."""
    PARSERS[name][0](f"{part}.".encode() * 100_000 + b"a = 1")
