"""A real headless Chromium, driven over its DevTools pipe: what it requests, logs, shows and prints."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def chromium() -> str:
    """The browser's path; the test is skipped, with the reason, where there is none."""
    found = os.environ.get("ROBUSTCF_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        if os.environ.get("ROBUSTCF_BROWSER_REQUIRED"):
            pytest.fail("no Chromium, though ROBUSTCF_BROWSER_REQUIRED is set")
        pytest.skip("no Chromium here: install Debian's package chromium, or set ROBUSTCF_CHROMIUM")
    return found


class Browser:
    """One page of one browser; `events` holds everything it told us."""

    def __init__(self, send: int, receive: int) -> None:
        self.send, self.receive, self.buffer = send, receive, b""
        self.numbers, self.events = itertools.count(1), list[dict[str, Any]]()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        message: dict[str, Any] = {"id": next(self.numbers), "method": method, "params": parameters}
        if hasattr(self, "session"):
            message["sessionId"] = self.session
        os.write(self.send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == message["id"]:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self, seconds: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.receive], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self.receive, 1 << 20)
            assert part, "the browser has gone"
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def wait_for(self, event: str) -> None:
        while not any(e.get("method") == event for e in self.events):
            self.events.append(self._read())

    def open(self, path: Path) -> float:
        """Seconds from the request to the end of the load event."""
        self.events.clear()
        begin = time.monotonic()
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")
        return time.monotonic() - begin

    def width(self, pixels: int, height: int = 812) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=pixels, height=height, deviceScaleFactor=1, mobile=pixels < 600,
        )  # fmt: skip

    def run(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        common = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def write(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    @property
    def requests(self) -> list[str]:
        sent = [
            e["params"]["request"]["url"]
            for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in sent if not url.startswith(("file:", "data:"))]

    @property
    def complaints(self) -> list[Any]:
        """Errors and warnings of the console, uncaught exceptions, refusals of the security policy."""
        found: list[Any] = []
        for event in self.events:
            about = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(about["exceptionDetails"])
            elif event.get("method") == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
                found.append(about["args"])
            elif event.get("method") == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
                found.append(about["entry"])
        return found

    def screenshot(self, path: Path, whole: bool = True) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def print(self, path: Path) -> None:
        pdf = self.call(
            "Page.printToPDF",
            printBackground=True,
            preferCSSPageSize=True,
            paperWidth=8.27,
            paperHeight=11.69,
        )
        path.write_bytes(base64.b64decode(pdf["data"]))


@contextmanager
def browse() -> Iterator[Browser]:
    """Start a browser of our own, and end it."""
    from_us, to_us = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="robustcf-browser-", ignore_cleanup_errors=True) as home:
        # The browser reads fd 3 and writes fd 4.
        command = [
            "bash", "-c", f'exec 3<&{from_us[0]} 4>&{to_us[1]}; exec "$@"', "-",
            chromium(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
            "--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={home}",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "about:blank",
        ]  # fmt: skip
        process = subprocess.Popen(
            command,
            pass_fds=(from_us[0], to_us[1]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": home},
        )
        for end in (from_us[0], to_us[1]):
            os.close(end)
        try:
            yield Browser(from_us[1], to_us[0])
        finally:
            for end in (from_us[1], to_us[0]):
                os.close(end)
            process.kill()
            process.wait()
