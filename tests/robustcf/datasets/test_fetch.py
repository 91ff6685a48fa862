"""Fetching, against a real server on this machine that behaves and misbehaves."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import ClassVar
from urllib.request import Request

import pytest

from robustcf.datasets import DatasetError, fetch
from robustcf.datasets.download import _HttpOnly
from robustcf.datasets.registry import Source

BODY = b"Age,Sex,Class\nD,C,B\nINC,FIXED,PREDICT\n30,male,1\n40,female,0\n"
WRONG = BODY.replace(b"30", b"31")
TINY = Source("Tiny.csv", 2, 2, len(BODY), hashlib.sha256(BODY).hexdigest(), "Tiny", "here")
LOOSE = replace(TINY, file="Loose.csv", sha256="0" * 64, exact=False)
REGISTRY = {"tiny": TINY, "loose": LOOSE}


class Server(BaseHTTPRequestHandler):
    """The first part of the address says how to answer."""

    requests: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requests.append(self.path)
        how = self.path.split("/")[1]
        if how in ("missing", "broken"):
            self.send_error(404 if how == "missing" else 503)
            return
        if how.startswith("to-"):
            host = f"127.0.0.1:{self.server.server_address[1]}"
            self.send_response(302)
            targets = {
                "to-good": f"http://{host}/good/",
                "to-ftp": f"ftp://{host}/",
                "to-file": "file:///etc/",
            }
            location = targets[how] + "Tiny.csv" if how in targets else self.path
            self.send_header("Location", location)
            self.end_headers()
            return
        body = {"wrong": WRONG, "shorter": BODY[:-12], "longer": BODY + b"1" * 999_999}.get(how, BODY)
        body = {"page": b"<html>Sign in</html>", "one-row": BODY[:-12], "endless": b""}.get(how, body)
        self.send_response(200)
        if how not in ("unsized", "endless"):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if how == "endless":
            try:
                while True:
                    self.wfile.write(b"0" * 65536)
            except OSError:
                return
        self.wfile.write(body[:-20] if how == "truncated" else body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up early is what these tests are about."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with QuietServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of this machine stands between the test and its own server."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Server.requests.clear()


@pytest.mark.parametrize("how", ["good", "unsized", "to-good", "good/"])
def test_a_good_file_is_put_into_the_cache(address: str, tmp_path: Path, how: str) -> None:
    path = fetch("Tiny", f"{address}/{how}", tmp_path / "new" / "cache", registry=REGISTRY)
    assert path == tmp_path / "new" / "cache" / "Tiny.csv"
    assert path.read_bytes() == BODY
    assert list(path.parent.iterdir()) == [path]


def test_a_valid_copy_is_not_downloaded_again(address: str, tmp_path: Path) -> None:
    first = fetch("tiny", f"{address}/good", tmp_path, registry=REGISTRY)
    assert fetch("tiny", f"{address}/missing", tmp_path, registry=REGISTRY) == first
    assert len(Server.requests) == 1


def test_a_damaged_copy_stays_until_a_good_one_replaces_it(address: str, tmp_path: Path) -> None:
    (tmp_path / "Tiny.csv").write_bytes(BODY[:30])
    with pytest.raises(DatasetError):
        fetch("tiny", f"{address}/wrong", tmp_path, registry=REGISTRY)
    assert (tmp_path / "Tiny.csv").read_bytes() == BODY[:30]
    assert fetch("tiny", f"{address}/good", tmp_path, registry=REGISTRY).read_bytes() == BODY


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("missing", "404"),
        ("broken", "503"),
        ("truncated", f"stopped after {len(BODY) - 20} of {len(BODY)} bytes"),
        ("shorter", f"it has {len(BODY) - 12} bytes, not {len(BODY)}"),
        ("wrong", "its SHA-256 is not"),
        ("page", "it has 20 bytes"),
        ("longer", f"offers {len(BODY) + 999_999} bytes, but at most {len(BODY)} are expected"),
        ("endless", f"sent more than the expected {len(BODY)} bytes"),
        ("to-ftp", "redirects to ftp://"),
        ("to-file", "file:///etc/Tiny.csv' is not allowed"),
        ("to-itself", "redirect"),
    ],
)
def test_a_bad_answer_leaves_nothing_and_says_what_to_do(
    address: str, tmp_path: Path, how: str, message: str
) -> None:
    with pytest.raises(DatasetError) as caught:
        fetch("tiny", f"{address}/{how}", tmp_path, registry=REGISTRY)
    assert message in str(caught.value)
    assert "Download Tiny.csv manually and set ROBUSTCF_DATA to its folder" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_may_differ_is_checked_by_rows_and_columns(address: str, tmp_path: Path) -> None:
    assert fetch("loose", f"{address}/wrong", tmp_path, registry=REGISTRY).read_bytes() == WRONG
    fetch("loose", f"{address}/missing", tmp_path, registry=REGISTRY)
    for how, message in [("one-row", "1 rows of 2 features, not 2 of 2"), ("page", "it is not typed CSV")]:
        with pytest.raises(DatasetError, match=message):
            fetch("loose", f"{address}/{how}", tmp_path / how, registry=REGISTRY)


def test_an_endless_answer_of_a_file_that_may_differ_is_cut_off(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fetch.__globals__, "SIZE_CAP", 1_000_000)
    with pytest.raises(DatasetError, match="sent more than the expected 1000000 bytes"):
        fetch("loose", f"{address}/endless", tmp_path, registry=REGISTRY)
    assert list(tmp_path.iterdir()) == []


def test_a_transfer_that_takes_too_long_is_given_up(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fetch.__globals__, "TOTAL_SECONDS", -1.0)
    with pytest.raises(DatasetError, match="took too long"):
        fetch("tiny", f"{address}/good", tmp_path, registry=REGISTRY)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("base", ["ftp://example.org/x", "file:///etc", "data:text/plain,x", "example.org"])
def test_only_web_addresses_are_opened(tmp_path: Path, base: str) -> None:
    with pytest.raises(DatasetError, match="is not an http or https address"):
        fetch("tiny", base, tmp_path, registry=REGISTRY)


def test_a_redirect_from_https_back_to_http_is_not_followed() -> None:
    secure = Request("https://example.org/Tiny.csv")
    with pytest.raises(DatasetError, match=r"redirects to http://example\.org/Tiny\.csv"):
        _HttpOnly().redirect_request(secure, BytesIO(), 302, "", Message(), "http://example.org/Tiny.csv")


def test_no_network_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"cannot be reached: .*Download Tiny.csv manually"):
        fetch("tiny", "http://127.0.0.1:1", tmp_path, registry=REGISTRY)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_clear_line(address: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DatasetError, match="could not be stored in"):
        fetch("tiny", f"{address}/good", tmp_path / "file", registry=REGISTRY)


def test_unknown_and_built_in_names() -> None:
    with pytest.raises(DatasetError, match="no data set is called 'zzz'"):
        fetch("zzz")
    with pytest.raises(DatasetError, match="built in"):
        fetch("synthetic-credit")
