"""Download one file over HTTP, with limits on size and time."""

from __future__ import annotations

import time
from email.message import Message
from http.client import HTTPException
from typing import IO, BinaryIO
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from robustcf.datasets.dataset import DatasetError

_CHUNK = 1 << 16


def download(url: str, sink: BinaryIO, *, cap: int, timeout: float, total: float) -> None:
    """Write the content of `url` to `sink`.

    Parameters
    ----------
    url : str
        An http or https address; other schemes are refused, also after a redirect.
    sink : binary file
        The file to write to.
    cap : int
        The maximum number of bytes, so that a server cannot fill the disk.
    timeout, total : float
        The maximum seconds without data, and for the whole transfer.

    Raises
    ------
    DatasetError
        If the download fails; the message says why.
    """
    _require_http(url)
    try:
        with _opener().open(url, timeout=timeout) as response:
            _copy(response, sink, cap, time.monotonic() + total)
    except DatasetError:
        raise
    except HTTPError as error:
        error.close()
        raise DatasetError(f"the server answered: {error}") from None
    except URLError as error:
        raise DatasetError(f"the server cannot be reached: {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise DatasetError(f"the transfer failed: {error!r}") from None


def _copy(response: request._UrlopenRet, sink: BinaryIO, cap: int, deadline: float) -> None:
    length = response.length
    if length is not None and length > cap:
        raise DatasetError(f"the server offers {length} bytes, but at most {cap} are expected")
    received = 0
    while length is None or received < length:
        chunk = response.read1(_CHUNK)  # returns what has arrived, so that the deadline is checked
        if not chunk:
            break
        received += len(chunk)
        if received > cap:
            raise DatasetError(f"the server sent more than the expected {cap} bytes")
        if time.monotonic() > deadline:
            raise DatasetError("the transfer took too long")
        sink.write(chunk)
    if length is not None and received < length:
        raise DatasetError(f"the transfer stopped after {received} of {length} bytes")


class _HttpOnly(request.HTTPRedirectHandler):
    """Follows redirects to http and https only, and never from https back to http."""

    def redirect_request(
        self, req: request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> request.Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme not in ("http", "https") or (req.type == "https" and scheme == "http"):
            fp.close()
            raise DatasetError(f"the server redirects to {shown(newurl)}, which is not allowed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _opener() -> request.OpenerDirector:
    """Build an opener for HTTP only.

    The default one also opens file:, ftp: and data:.
    """
    opener = request.OpenerDirector()
    opener.addheaders = [("User-Agent", "robustcf")]
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPErrorProcessor(),
        _HttpOnly(),
    ):
        opener.add_handler(handler)
    return opener


def _require_http(url: str) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise DatasetError(f"{shown(url)} is not an http or https address")
    if _user(url):  # urllib would read the password as a port and print it
        raise DatasetError(f"{shown(url)}: the address must not contain a user or password")


def shown(url: str) -> str:
    """Return an address without user, password and parameters, for messages.

    >>> shown("https://me:hush@mirror/a.csv?token=x")
    'https://mirror/a.csv'
    """
    scheme, mark, rest = url.partition("://")
    return scheme + mark + rest.removeprefix(_user(url)).partition("?")[0]


def _user(url: str) -> str:
    """Return user and password up to the @; a password may contain unquoted slashes."""
    before, at, _ = url.partition("://")[2].rpartition("@")
    return before + at if at and (":" in before or "/" not in before) else ""
