"""CaptureScreenshot with a real Chromium on a local page."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from callback_runs import code_agent, logged
from PIL import Image
from smolagents import ActionStep, tool

from smolagents_memory import AddContext, CaptureScreenshot
from smolagents_memory.testing import code


COLOURS = {"red": (255, 0, 0), "lime": (0, 255, 0), "blue": (0, 0, 255)}
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=400,300",
]


class Page(BaseHTTPRequestHandler):
    """A page of one colour, which it is called by."""

    def do_GET(self) -> None:
        colour = self.path.strip("/")
        body = f"<title>{colour}</title><body style='background: {colour}'></body>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Silent."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if browser is None or chromedriver is None:
        pytest.skip("there is no Chromium with its chromedriver on the PATH (.ci/run installs one)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'chromium'}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=chromedriver))
    driver.set_page_load_timeout(30)
    yield driver
    driver.quit()


def browsing_agent(driver: Any, script: list[str], **capture: Any) -> Any:
    @tool
    def go_to(url: str) -> str:
        """Opens a page.

        Args:
            url: Its address.
        """
        driver.get(url)
        return f"opened {url}"

    def screenshot() -> Image.Image:
        return Image.open(BytesIO(driver.get_screenshot_as_png()))

    return code_agent(
        script,
        tools=[go_to],
        step_callbacks=[
            CaptureScreenshot(screenshot, **capture),
            AddContext(lambda step: f"{driver.title} at {driver.current_url}", label="page"),
        ],
    )


@pytest.mark.slow
def test_the_agent_sees_the_pages_it_opens_and_only_the_newest_two(driver: Any, site: str) -> None:
    visits = [code(f"go_to('{site}/{colour}')") for colour in COLOURS]
    agent = browsing_agent(driver, [*visits, code("final_answer('seen')")], delay=0.05, keep_last=2)
    assert agent.run("Look at the pages.") == "seen"
    seen = [[image.convert("RGB").getpixel((200, 50)) for image in sent.images] for sent in agent.model.calls]
    red, lime, blue = COLOURS.values()
    assert seen == [[], [red], [red, lime], [lime, blue]]
    assert f"[page] lime at {site}/lime" in agent.model.calls[-1].text
    assert "[1 image removed]" in agent.model.calls[-1].text
    assert logged(agent) == ""


def test_four_runs_in_one_browser_send_exactly_two_images(driver: Any, site: str) -> None:
    visit = [code(f"go_to('{site}/{colour}')") for colour in COLOURS]
    agent = browsing_agent(driver, [*visit, code("final_answer('seen')")] * 4)
    for run in range(4):
        agent.run(f"Look again, {run}.", reset=False)
    assert [len(sent.images) for sent in agent.model.calls] == [0, 1, *[2] * 14]


def test_a_browser_that_is_gone_is_noted_and_the_run_goes_on(driver: Any, site: str) -> None:
    agent = browsing_agent(
        driver, [code(f"go_to('{site}/red')"), code("print('waiting')"), code("final_answer('seen')")]
    )
    agent.step_callbacks.register(ActionStep, lambda step: driver.quit() if step.step_number == 1 else None)
    assert agent.run("Look.") == "seen"
    assert [len(sent.images) for sent in agent.model.calls] == [0, 1, 1]
    assert "[screenshot failed: " in agent.model.calls[-1].text
    assert logged(agent).count("CaptureScreenshot could not take a screenshot at step 2") == 1
