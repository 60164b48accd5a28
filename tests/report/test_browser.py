"""The report as a browser shows it: on a desk, on a phone and on paper."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SMALLEST = 11  # pixels of text that can still be read
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--proxy-server=http://127.0.0.1:9",  # nobody is there
)
IMAGES = """
const done = arguments[0], images = [...document.images];
document.querySelectorAll("details").forEach(each => each.open = true);
images.forEach(each => each.loading = "eager");
Promise.allSettled(images.map(each => each.decode())).then(() => done(images.map(each => {
  const box = each.getBoundingClientRect();
  const shown = each.checkVisibility() && box.width > 0 && box.height > 0;
  return {name: each.alt || each.src.slice(0, 60), fine: each.complete && each.naturalWidth > 0 && shown};
})));
"""
TEXTS = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim();
  if (text) found.push([parseFloat(getComputedStyle(walker.currentNode.parentElement).fontSize), text.slice(0, 40)]);
}
return found;
"""
# The content of closed details has a box too; that it is drawn shows in the height of the whole.
CLOSED = """
return [...document.querySelectorAll("details")].filter(each => {
  const summary = each.querySelector("summary"), content = [...each.children].filter(child => child !== summary);
  return each.offsetHeight <= summary.offsetHeight + 10 || !content.every(child => child.checkVisibility());
}).map(each => each.querySelector("summary").textContent);
"""


@dataclass(frozen=True)
class Window:
    """A browser of a given size."""

    driver: Any
    width: int

    def open(self, page: Path) -> Window:
        """Show a page, and forget what was logged before it."""
        self.driver.get("about:blank")
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(page.as_uri())
        return self

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def requests(self) -> list[str]:
        """The address of everything that was asked for."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def foreign_requests(self) -> list[str]:
        return [url for url in self.requests() if not url.startswith(("file:", "data:"))]

    def images(self) -> list[dict[str, Any]]:
        return list(self.driver.execute_async_script(IMAGES))

    def broken_images(self) -> list[str]:
        return [image["name"] for image in self.images() if not image["fine"]]

    def overhang(self) -> int:
        """Pixels by which the document is wider than the window; a phone widens its view, so the view is no measure."""
        return max(0, int(self.driver.execute_script("return document.documentElement.scrollWidth")) - self.width)

    def texts(self) -> list[tuple[float, str]]:
        return [(size, text) for size, text in self.driver.execute_script(TEXTS)]

    def small_texts(self) -> list[str]:
        return [f"{size} px: {text}" for size, text in self.texts() if size < SMALLEST]

    def closed_on_paper(self) -> list[str]:
        """The summaries of details whose content is not printed."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        try:
            return list(self.driver.execute_script(CLOSED))
        finally:
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    def printed_pages(self) -> int:
        pdf = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
        assert pdf.startswith(b"%PDF-")
        return len(re.findall(rb"/Type\s*/Page\b", pdf))


def missing() -> list[str]:
    """What these tests need and is not here."""
    programs = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return programs + ([] if find_spec("selenium") else ["selenium"])


def need_browser() -> None:
    """Skip without a browser, except where nothing may be skipped."""
    if lacking := missing():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"not installed: {', '.join(lacking)}")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One headless Chromium with a new profile."""
    need_browser()
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with pytest.MonkeyPatch.context() as patch:
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1,localhost")  # the driver is on this machine
        started = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield started
    started.quit()


@pytest.fixture(params=[(1280, 900, False), (390, 844, True)], ids=["desk", "phone"])
def window(request: pytest.FixtureRequest, driver: Any) -> Window:
    width, height, mobile = request.param
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    return Window(driver, width)


@pytest.fixture
def report(window: Window, made: Path) -> Window:
    return window.open(made / "runs" / "radio" / "report.html")


def test_the_report_loads_without_complaint(report: Window) -> None:
    assert report.driver.title
    assert report.complaints() == []


def test_every_figure_is_there_to_see(report: Window) -> None:
    assert report.images()
    assert report.broken_images() == []


def test_the_report_asks_for_nothing_but_itself(report: Window) -> None:
    assert report.foreign_requests() == []
    report.driver.refresh()
    assert any(url.startswith("file:") for url in report.requests())


def test_the_report_is_no_wider_than_the_window(report: Window) -> None:
    assert report.overhang() == 0


def test_all_text_is_large_enough_to_read(report: Window) -> None:
    assert len(report.texts()) > 100
    assert report.small_texts() == []


def test_paper_has_all_details_in_several_pages(report: Window) -> None:
    assert report.driver.execute_script(CLOSED)  # on the screen they are closed
    assert report.closed_on_paper() == []
    assert report.printed_pages() > 1


BROKEN = """<!doctype html><meta name="viewport" content="width=device-width, initial-scale=1"><title>broken</title>
<img src="nowhere.png" alt="nowhere"><img src="http://vbs.invalid/far.png" alt="far">
<p style="font-size: 10px">small</p><div style="width: 1400px">wide</div>
<details><summary>folded</summary><p>never printed</p></details>"""


def test_a_broken_page_is_found_out(window: Window, tmp_path: Path) -> None:
    page = tmp_path / "broken.html"
    page.write_text(BROKEN, encoding="utf-8")
    window.open(page)
    assert {"nowhere.png", "far.png"} <= set(re.findall(r"\w+\.png", " ".join(window.complaints())))
    assert window.foreign_requests() == ["http://vbs.invalid/far.png"]
    assert window.overhang() >= 1400 - window.width
    assert window.small_texts() == ["10 px: small"]
    assert window.closed_on_paper() == ["folded"]
    assert window.printed_pages() == 1
    assert window.broken_images() == ["nowhere", "far"]


def test_an_image_that_cannot_be_seen_is_found_out(window: Window, tmp_path: Path) -> None:
    dot = (
        "data:image/svg+xml;base64,"
        + base64.b64encode(b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>').decode()
    )
    page = tmp_path / "hidden.html"
    page.write_text(
        f'<!doctype html><img src="{dot}" alt="seen"><p style="display: none"><img src="{dot}" alt="hidden"></p>'
        f'<img src="{dot}" alt="flat" style="height: 0">'
    )
    assert window.open(page).broken_images() == ["hidden", "flat"]


def test_without_a_browser_tests_are_skipped_but_not_in_ci(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing()[:2] == ["chromium", "chromedriver"]
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception):
        need_browser()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception):
        need_browser()
