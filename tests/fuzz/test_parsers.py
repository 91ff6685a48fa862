"""Parsers fed with mutilated files: an answer or one line, never a traceback, a hang or a stray file."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.fuzz.parsers import AUDIT, PARSERS

CRASHES = Path(__file__).parent / "crashes"
TOKENS = [
    b"", b"0", b"-1", b"1e999", b"nan", b"inf", b"-inf", b"1e-400", b"9" * 25, b"true", b'""', b'"x"', b"[]",
    b"{}", b"[[1]]", b"null", b"..", b"../../x", b"/", b"\x00", b"\xff\xfe", b"\n", b",", b'"', b"=", b"[",
    b"]", b"1979-05-27", b"0x1F", "ß".encode(), "\u202e".encode(), b"\r", b"\t", b"=cmd()", b"<script>", b"e",
    b".", b"name", b"kind", b"s3://a:b@c/d", b"file:///etc", b"1_000", b"[" * 3000,
]  # fmt: skip


VALUES = [
    "0", "-1", "1.5", "nan", "inf", "true", '""', '"naive"', "[]", "[1, 'a']", "{}", "{a = 1}", "[{}]",
    "1979-05-27", "[[]]", "9223372036854775807", "1e308", '"trees-99999999999999999999"',
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


@st.composite
def odd_values(draw: st.DrawFn) -> bytes:
    """A config whose values are of any type: each line's value is replaced or kept."""
    lines = []
    for line in AUDIT.decode().splitlines():
        if " = " in line and draw(st.integers(0, 5)) == 0:
            value = draw(st.sampled_from(VALUES))
            line = f"{line.split(' = ')[0]} = {value}"
        lines.append(line)
    return "\n".join(lines).encode()


@settings(derandomize=True, max_examples=300, deadline=None)
@given(odd_values())
def test_a_config_of_odd_values_is_read_or_refused(content: bytes) -> None:
    PARSERS["config"][0](content)


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
