"""A headless Chromium for the report's tests, installed from the system's packages where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fetching import one_at_a_time
from selenium.webdriver.support.ui import WebDriverWait

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def _find() -> tuple[str, str] | None:
    browser = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def _install() -> None:
    """Debian and its kin only, and only as root, as in a container: elsewhere it is the developer's choice."""
    if shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": 600}
        subprocess.run(["apt-get", "update"], check=False, **quiet)
        subprocess.run(["apt-get", "install", "-y", "chromium", "chromium-driver"], check=False, **quiet)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium that has been started once for all tests."""
    from selenium import webdriver

    with one_at_a_time():
        found = _find()
        if found is None:
            _install()
            found = _find()
    if found is None:
        reason = "no Chromium with chromedriver here: apt-get install chromium chromium-driver"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = found[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(found[1]))
    yield driver
    driver.quit()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Any:
    """Opens a page, and sees to it that all of it was drawn and nothing was complained about."""

    def open_page(html: str, width: int = 1100, dark: bool = False) -> Any:
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(path.as_uri())
        assert browser.execute_script("return document.documentElement.dataset.ready") == "true"
        assert browser.get_log("browser") == []
        return browser

    return open_page


@pytest.fixture
def saved(browser: Any, tmp_path: Path) -> Any:
    """Presses a button that saves a file, and reads the file."""

    def of(button: str, name: str) -> bytes:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
        browser.execute_script("document.querySelector(arguments[0]).click()", button)
        path = folder / name
        # The browser puts an empty file there first, to keep the name.
        WebDriverWait(browser, 60, 0.05).until(lambda _: path.exists() and path.stat().st_size)
        return path.read_bytes()

    return of
