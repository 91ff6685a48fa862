"""Storage that fails when told to: a bucket behind a proxy, and a disk of a few kilobytes."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from robustcf_jobs.run.folder import RunFolder

Verdict = Callable[[int, str, str], bool]  # request number, verb, path: whether it fails
SILENCE = 5.0  # seconds without a byte; the client gives a request up after three


class Proxy:
    """Hands requests on to an S3 server, or fails them: every other by a 503, else by hanging up.

    `silent`: it says nothing for a while before it hangs up. `delay`: seconds added to each request.
    """

    def __init__(self, port: int) -> None:
        self.target, self.count, self.failed, self.silent = port, 0, 0, False
        self.delay = 0.0
        self.fails: Verdict = lambda number, verb, path: False
        lock, proxy = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                body = self.body()
                with lock:
                    proxy.count += 1
                    fails = proxy.fails(proxy.count, self.command, self.path)
                    proxy.failed += fails
                    cut = fails and proxy.failed % 2 == 1
                if cut:
                    time.sleep(SILENCE if proxy.silent else 0.0)
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                if fails:
                    self.send_response(503)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                time.sleep(proxy.delay)
                proxy.hand_on(self, body)

            def body(self) -> bytes:
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                pieces = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    pieces.append(self.rfile.read(size))
                    self.rfile.readline()
                while self.rfile.readline().strip():
                    pass  # trailers
                return b"".join(pieces)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def hand_on(self, request: Any, body: bytes) -> None:
        connection = HTTPConnection("127.0.0.1", self.target, timeout=60)
        skipped = ("transfer-encoding", "content-length", "expect")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in skipped}
        connection.request(request.command, request.path, body, headers | {"Content-Length": str(len(body))})
        answer = connection.getresponse()
        content = answer.read()
        request.send_response(answer.status)
        length = str(len(content))
        for name, value in answer.getheaders():
            if name.lower() == "content-length" and request.command == "HEAD":
                length = value
            elif name.lower() not in ("connection", "transfer-encoding", "content-length"):
                request.send_header(name, value)
        request.send_header("Content-Length", length)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(content)
        connection.close()


@contextmanager
def bucket() -> Iterator[tuple[Proxy, str]]:
    """A proxy, and the address of a run folder behind it, in a bucket of its own."""
    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    proxy = Proxy(server.get_host_and_port()[1])
    try:
        where = f"?scheme=http&endpoint_override=127.0.0.1:{proxy.port}&region=us-east-1"
        name = f"bucket-{proxy.port}"  # the server remembers those of earlier tests
        system, _ = fs.FileSystem.from_uri(f"s3://test:hush@{name}/{where}&allow_bucket_creation=true")
        system.create_dir(name)
        yield proxy, f"s3://test:hush@{name}/run{where}"
    finally:
        proxy.server.shutdown()
        proxy.server.server_close()
        server.stop()


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """A real filesystem of that size at that folder; needs root."""
    folder.mkdir(parents=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder], check=True, capture_output=True
    )
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def resize(folder: Path, kilobytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", folder], check=True)


def copied(run: RunFolder, folder: Path) -> Path:
    for name in ("counterfactuals", "validation", "keys", "summary", ""):
        for file in run.names(name) if name else ["manifest.json"]:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(run.read(file))
    return folder
