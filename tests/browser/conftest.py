"""A browser, and the pages under test.

    pip install playwright
    MXSPEC_BROWSER=chromium python -m pytest tests/browser

The browser is the one that MXSPEC_BROWSER names, Chromium or Chrome on the path, or playwright's own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mxspec_conformance.cli.main import main

ROOT = Path(__file__).parents[2]
_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A running browser."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; pip install playwright")
    program = os.environ.get("MXSPEC_BROWSER") or next((found for name in _NAMES if (found := shutil.which(name))), None)
    with sync_api.sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"no browser starts; name one in MXSPEC_BROWSER: {str(error).splitlines()[0]}")
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the committed results."""
    out = tmp_path_factory.mktemp("browser") / "site"
    done = CliRunner().invoke(main, ["site", str(ROOT / "reports"), "--docs", str(ROOT / "docs"), "-o", str(out)])
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test where it asks the network for anything, or where a script fails."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    asked: list[str] = []
    errors: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield opened
    opened.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert errors == []
