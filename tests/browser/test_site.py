"""The site in a browser: filters, addresses that can be sent, the search, narrow windows and dark colours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

#: What `check --html` writes: a page by itself, which is no part of the site.
REPORT = Path(__file__).parents[2] / "reports" / "html" / "gguf.html"


def url(site: Path, name: str, fragment: str = "") -> str:
    return (site / name).as_uri() + (f"#{fragment}" if fragment else "")


def shown(page: Any) -> list[str]:
    """The implementations that the matrix shows, in order."""
    found: list[str] = page.eval_on_selector_all(
        "table.matrix tbody tr", "rows => rows.filter(r => r.offsetParent).map(r => r.dataset.slug)"
    )
    return found


def test_filters_show_what_was_asked_for(page: Any, site: Path) -> None:
    page.goto(url(site, "index.html"))
    everything = shown(page)
    assert page.inner_text("#count") == f"{len(everything)} of {len(everything)}"
    page.fill("input[name=q]", "gguf")
    names = shown(page)
    assert names
    assert set(names) < set(everything)
    page.fill("input[name=q]", "")
    page.select_option("select[name=format]", "nvfp4")
    columns = page.eval_on_selector_all(
        "#quantizers thead th[data-column]", "heads => heads.filter(h => h.offsetParent).map(h => h.dataset.column)"
    )
    assert columns == ["nvfp4"]
    assert 0 < len(shown(page)) < len(everything)
    page.select_option("select[name=verdict]", "fail")
    assert page.eval_on_selector_all(
        "#quantizers tbody tr", "rows => rows.filter(r => r.offsetParent).every(r => r.querySelector('[data-column=nvfp4] a.v-fail'))"
    )
    page.click("button[type=reset]")
    page.wait_for_function("text => document.getElementById('count').textContent === text", arg=f"{len(everything)} of {len(everything)}")
    assert shown(page) == everything


def test_an_operation_has_its_own_verdict(page: Any, site: Path) -> None:
    page.goto(url(site, "index.html", "operation=dequantize&format=mxfp4"))
    ratios = page.eval_on_selector_all(
        "#quantizers tbody tr", "rows => rows.filter(r => r.offsetParent).map(r => r.querySelector('[data-column=mxfp4] i').textContent)"
    )
    assert ratios
    assert all(re.fullmatch(r"\d+/\d+", ratio) for ratio in ratios)
    totals = {int(ratio.split("/")[1]) for ratio in ratios}
    assert max(totals) < 15, "dequantize has few requirements"


def test_an_address_can_be_sent(page: Any, browser: Any, site: Path) -> None:
    page.goto(url(site, "index.html"))
    page.fill("input[name=q]", "torch")
    page.select_option("select[name=sort]", "failing")
    sent = page.url
    first = shown(page)
    other = browser.new_page()
    other.goto(sent)
    assert shown(other) == first
    assert other.input_value("input[name=q]") == "torch"
    other.close()


def test_the_search_finds_pages(page: Any, site: Path) -> None:
    page.goto(url(site, "search.html"))
    page.fill("input[name=q]", "mx-rceil")
    page.wait_for_selector("#found li a")
    links = page.eval_on_selector_all("#found a", "links => links.map(a => a.getAttribute('href'))")
    assert "p/mx-rceil.html" in links
    page.goto(url(site, "search.html", "q=waiver"))
    assert "docs/reports.html" in page.eval_on_selector_all("#found a", "links => links.map(a => a.getAttribute('href'))")
    page.fill("input[name=q]", "<img src=x onerror=alert(1)>")
    assert page.locator("#found img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name",
    [
        "index.html",
        "more.html",
        "agreement.html",
        "i/torchao-0.18.0.html",
        "i/gguf-0.19.0.html",
        "p/mx-rceil.html",
        "r/quantize-tie-even.html",
        "plots.html",
        "docs/judge.html",
        "model.html",
        "l/128x4.html",
        pytest.param(str(REPORT), id="report"),
    ],
)
def test_narrow_windows_do_not_scroll_sideways(page: Any, site: Path, name: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(url(site, name))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_wide_tables_scroll_by_themselves(page: Any, site: Path) -> None:
    page.set_viewport_size({"width": 1100, "height": 800})
    page.goto(url(site, "i/torchao-0.18.0.html"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 1100


def test_a_table_that_goes_on_beside_the_window_has_a_shadow_there(page: Any, site: Path) -> None:
    page.set_viewport_size({"width": 1100, "height": 800})
    page.goto(url(site, "index.html"))
    box = page.locator(".scroll").first
    assert box.evaluate("b => b.scrollWidth > b.clientWidth")
    assert box.evaluate("b => getComputedStyle(b).backgroundAttachment") == "local, local, scroll, scroll"


def test_a_layout_says_where_a_field_lies(page: Any, site: Path) -> None:
    page.goto(url(site, "layouts.html"))
    page.click("a[href='l/128x4.html']")
    field = page.locator("table.places td", has_text=re.compile("^33,1$"))
    field.hover()
    assert field.get_attribute("title") == "byte 21 (0x15): bits 0 to 7: scale of row 33, column 1"
    assert field.evaluate("f => getComputedStyle(f).outlineStyle") == "solid"


def test_the_matrix_opens_in_a_second(page: Any, site: Path) -> None:
    page.goto(url(site, "index.html"))
    milliseconds = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert milliseconds < 1000


def test_the_keyboard_reaches_the_content(page: Any, site: Path) -> None:
    page.goto(url(site, "index.html"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
