"""What the shop's page shows, and pictures of it: by a real Chromium, or drawn where there is none."""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw


if TYPE_CHECKING:
    from smolagents_memory.demo.service import Shop

WIDTH, HEIGHT = 480, 240
_BAR, _STEP, _BOTTOM = 18, 26, 200
# without a sandbox, which many containers do not allow: it only ever shows the demo's own page
_OPTIONS = """
    --headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars --disable-sync
    --disable-background-networking --disable-component-update --disable-dev-shm-usage
"""
_PATIENCE = 30  # seconds that a browser may take for a picture
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def bars(statuses: Sequence[int]) -> list[tuple[int, int, str]]:
    """The newest answers as bars: left edge, height, colour."""
    looks = ((40, "#2e7d57") if status == 200 else (120, "#c0392b") for status in statuses[-17:])
    return [(20 + _STEP * n, *look) for n, look in enumerate(looks)]


def title(statuses: Sequence[int], pool: int) -> str:
    """How the shop is, in a line."""
    status = f"checkout answers {statuses[-1]}" if statuses else "not asked yet"
    return f"The shop: {status}   ({pool} connections)"


def page(statuses: Sequence[int], pool: int) -> str:
    """The shop's status page."""
    drawn = "".join(
        f'<rect x="{left}" y="{_BOTTOM - height}" width="{_BAR}" height="{height}" rx="3" fill="{colour}"/>'
        for left, height, colour in bars(statuses)
    )
    return (
        "<!doctype html><meta charset=utf-8><title>The shop</title>"
        f'<body style="margin:0;background:#fbfaf7"><svg width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">'
        f'<text x="20" y="34" font-size="17" fill="#333">{html.escape(title(statuses, pool))}</text>{drawn}'
        f'<line x1="20" y1="{_BOTTOM}" x2="{WIDTH - 20}" y2="{_BOTTOM}" stroke="#bbb"/></svg>'
    )


def drawing(statuses: Sequence[int], pool: int) -> bytes:
    """The same page, drawn without a browser, as PNG."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "#fbfaf7")
    draw = ImageDraw.Draw(image)
    draw.text((20, 20), title(statuses, pool), fill="#333333")
    for left, height, colour in bars(statuses):
        draw.rounded_rectangle((left, _BOTTOM - height, left + _BAR, _BOTTOM), 3, fill=colour)
    draw.line((20, _BOTTOM, WIDTH - 20, _BOTTOM), fill="#bbbbbb")
    data = BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def browser() -> tuple[str, str] | None:
    """Chromium and its driver, if both are there and selenium is installed. Nothing is ever downloaded."""
    from importlib.util import find_spec

    chromium = next(filter(None, map(shutil.which, _BROWSERS)), None)
    driver = shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver and find_spec("selenium") else None


class Camera:
    """Takes pictures of the shop's page.

    The browser belongs to a process of its own that ends with its standard input: so no browser is left behind even
    when the demo is killed.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    @property
    def kind(self) -> str:
        """Whether the pictures are photographed or drawn."""
        return "drawn" if self._process is None else "screenshots by Chromium"

    def open(self, url: str) -> Camera:
        """Start the browser on the page, if there is one."""
        if browser() is not None:
            arguments = [sys.executable, "-m", "smolagents_memory.demo", "camera", url]
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        return self

    def close(self) -> None:
        """Close the browser."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=20)

    def __call__(self, shop: Shop) -> bytes:
        """A picture of the page as it is now, as PNG."""
        if self._process is not None:
            try:
                return self._photograph(self._process)
            except (OSError, ValueError):  # the browser did not start, or is gone: drawn from now on
                self.close()
        return drawing(shop.statuses, shop.pool)

    @staticmethod
    def _photograph(process: subprocess.Popen[str]) -> bytes:
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = threading.Timer(_PATIENCE, process.kill)
        deadline.start()
        try:
            process.stdin.write("shoot\n")
            process.stdin.flush()
            path = Path(process.stdout.readline().strip() or os.devnull)
        finally:
            deadline.cancel()
        data = path.read_bytes()
        if not data.startswith(b"\x89PNG"):
            raise ValueError("no picture")
        path.unlink()
        return data


def be_camera(url: str) -> int:
    """The process of the camera: a picture for every line that comes in, until no more can come."""
    from selenium import webdriver

    found = browser()
    assert found is not None
    with tempfile.TemporaryDirectory(prefix="smolagents-memory-demo-") as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = found[0]
        window = f"--window-size={WIDTH},{HEIGHT + 140}"  # the frame takes some, also without a screen
        for option in (*_OPTIONS.split(), f"--user-data-dir={folder}/profile", window):
            options.add_argument(option)
        driver = webdriver.Chrome(options, webdriver.ChromeService(found[1]))
        try:
            for number, _ in enumerate(sys.stdin):
                driver.get(url)
                path = Path(folder) / f"{number}.png"
                Image.open(BytesIO(driver.get_screenshot_as_png())).crop((0, 0, WIDTH, HEIGHT)).save(path)
                print(path, flush=True)
        finally:
            driver.quit()
    return 0
