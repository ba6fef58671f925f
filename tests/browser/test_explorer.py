"""The explorer in a browser: what it shows is what the model computes, by mouse, keyboard and link."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import mxspec
from mxspec import layouts
from mxspec.layouts import get_layout

X = np.array([2.5, 5, -0.25, 0.75, 1.25, 1.75, 3.5, 7], np.float32)
TEXT = "2.5 5 -0.25 0.75 1.25 1.75 3.5 7"


def open_explorer(page: Any, site: Path, **given: str) -> None:
    fragment = "&".join(f"{key}={quote(value)}" for key, value in given.items())
    page.goto("about:blank")
    page.goto((site / "explorer.html").as_uri() + (f"#{fragment}" if fragment else ""))


def column(page: Any, head: str) -> list[str]:
    """The texts of a column of the table of lanes."""
    found: list[str] = page.evaluate(
        """head => {
          const at = [...document.querySelectorAll('.lanes thead th')].findIndex(t => t.textContent === head);
          return [...document.querySelectorAll('.lanes tbody tr')].map(r => r.children[at].textContent.replaceAll('\\u2212', '-').replace('\\u221e', 'inf'));
        }""",
        head,
    )
    return found


def codes_of(texts: list[str]) -> list[int]:
    return [int(text.split()[0], 16) for text in texts]


def numbers(texts: list[str]) -> list[int]:
    """float32 bits, so that zeros have signs."""
    return [int(np.float32(float(text)).view(np.uint32)) for text in texts]


def padded(x: Any, k: int = 32) -> Any:
    return np.concatenate([x, np.zeros(k - len(x), np.float32)])[None]


@pytest.mark.parametrize(
    ("fmt", "profile"), [("mxfp4", "mx-floor"), ("mxfp6_e3m2", "mx-even"), ("mxfp8_e4m3", "mx-rceil"), ("mxint8", "mx-ceil")]
)
def test_the_block_is_the_models(page: Any, site: Path, fmt: str, profile: str) -> None:
    open_explorer(page, site, f=fmt, p=profile, x=TEXT)
    page.click("#more button")
    want = mxspec.quantize(padded(X), fmt, profile=profile)
    assert codes_of(column(page, "code")) == want.codes[0].tolist()
    assert numbers(column(page, "value")) == want.dequantize(np.float32)[0].view(np.uint32).tolist()
    assert int(page.inner_text(".side .byte .hex"), 16) == int(want.scales[0, 0])


def test_two_levels_take_the_tensor_scale_that_is_asked_for(page: Any, site: Path) -> None:
    open_explorer(page, site, f="nvfp4", p="nvfp4-te", x=TEXT)
    page.click("#more button")
    auto = mxspec.quantize(padded(X, 16), "nvfp4", profile="nvfp4-te", tensor_scale="auto")
    assert codes_of(column(page, "code")) == auto.codes[0].tolist()
    page.select_option("#tensor-kind", "amax")
    page.fill("#tensor-value", "100")
    wide = mxspec.quantize(padded(X, 16), "nvfp4", profile="nvfp4-te", tensor_scale=mxspec.TensorScale("amax", 100.0))
    assert codes_of(column(page, "code")) == wide.codes[0].tolist()
    assert int(page.inner_text(".side .byte .hex"), 16) == int(wide.scales[0, 0])
    page.select_option("#tensor-kind", "none")
    alone = mxspec.quantize(padded(X, 16), "nvfp4", profile="nvfp4-te")
    assert int(page.inner_text(".side .byte .hex"), 16) == int(alone.scales[0, 0])


def test_two_profiles_differ_where_their_bits_do(page: Any, site: Path) -> None:
    open_explorer(page, site, f="mxfp4", p="mx-floor", x=TEXT)
    page.select_option("#profile-b", "mx-rceil")
    a, b = (mxspec.quantize(padded(X), "mxfp4", profile=p) for p in ("mx-floor", "mx-rceil"))
    y = [t.dequantize(np.float32) for t in (a, b)]
    expected = (
        f"Differ: the scale, {(a.codes != b.codes).sum()} of 32 codes, {(y[0].view(np.uint32) != y[1].view(np.uint32)).sum()} of 32 values."
    )
    assert page.inner_text("#difference") == expected
    marked = page.eval_on_selector_all(".lanes tbody tr", "rows => rows.map(r => r.querySelectorAll('.differs').length)")
    assert marked == [2 * int(d).bit_count() for d in (a.codes ^ b.codes)[0, :8]]


def test_the_scale_is_dragged_by_the_keyboard(page: Any, site: Path) -> None:
    open_explorer(page, site, f="mxfp4", p="mx-floor", x=TEXT)
    page.focus(".side input[type=range]")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".side .byte .hex") == "80"
    assert "by hand; the profile writes 7F" in page.inner_text(".side .byte")
    doubled = mxspec.quantize(padded(np.append(X, np.float32(8))), "mxfp4", profile="mx-floor")  # its maximum has the scale 80
    assert codes_of(column(page, "code")) == doubled.codes[0, :8].tolist()
    assert page.evaluate("document.activeElement.type") == "range"
    page.click("text=as the profile has it")
    assert page.inner_text(".side .byte .hex") == "7F"
    page.click("[aria-label='scale byte of A down by one']")
    assert page.inner_text(".side .byte .hex") == "7E"


def test_lanes_are_reached_by_the_keyboard(page: Any, site: Path) -> None:
    open_explorer(page, site, x=TEXT)
    page.focus("[data-lane='0']")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#lane h2") == "Lane 2, step by step"
    assert page.evaluate("document.activeElement.dataset.lane") == "2"


def test_a_link_opens_the_same_page(page: Any, browser: Any, site: Path) -> None:
    open_explorer(page, site)
    page.fill("#numbers", "1/3, -0x1.8p-3; 0x3F800001 1e-40 nan")
    page.select_option("#format", "nvfp4")
    page.select_option("#profile-b", "nvfp4-exact")
    page.click("[data-lane='3']")
    page.click("[aria-label='scale byte of B down by one']")
    shown = page.inner_text("#explorer")
    assert page.get_attribute("#permalink", "href") == page.evaluate("location.hash")
    other = browser.new_page()
    other.goto(page.url)
    assert other.inner_text("#explorer") == shown
    assert other.input_value("#numbers") == "1/3, -0x1.8p-3; 0x3F800001 1e-40 nan"
    other.close()
    page.evaluate("location.hash = '#f=mxint8&x=1'")
    page.wait_for_function("document.getElementById('format').value === 'mxint8'")


def test_a_profiles_page_leads_to_what_separates_it_from_another(page: Any, site: Path) -> None:
    page.goto((site / "p" / "mx-floor.html").as_uri())
    row = page.locator("table.near tr", has=page.locator("a", has_text="every step")).first
    other = row.locator("td.mono a").first.inner_text()
    row.locator("a", has_text="every step").click()
    page.wait_for_selector("#explorer:not([hidden])")
    assert page.eval_on_selector_all("#sides h3", "heads => heads.map(h => h.textContent)") == ["mx-floor", other]
    assert page.inner_text("#difference").startswith("Differ: ")


TYPED = {
    "0.1": 0x3DCCCCCD, "1e-40": 0x000116C2, "-0": 0x80000000, "0x3F80": 0x3F800000, "0x7FC00000": 0x7FC00000, "1/3": 0x3EAAAAAB, "-inf": 0xFF800000,
    "0x1.fffffep+127": 0x7F7FFFFF, "0x1p-149": 0x00000001, "0x1p-150": 0x00000000, "0x1.8p-150": 0x00000001, "3.4028236e38": 0x7F800000, "1.5f": 0x3FC00000,
    # Just above half way between two float32; rounded to float64 first, it would be a tie.
    "1.00000017881393432617187500000001": 0x3F800002, "1.00000005960464477539062500000001": 0x3F800001, "1.000000059604644775390625": 0x3F800000,
    "3.4028235677973367e38": 0x7F800000, "3.4028235677973366e38": 0x7F7FFFFF,
}  # fmt: skip


def test_what_is_typed_is_rounded_once(page: Any, site: Path) -> None:
    open_explorer(page, site, x=" ".join(TYPED))
    assert [int(text, 16) for text in column(page, "float32 bits")] == list(TYPED.values())


def test_what_is_no_number_is_named(page: Any, site: Path) -> None:
    open_explorer(page, site, x="1 zwei 0x123 1/0 2")
    assert page.inner_text("#wrong").startswith("Not a number: zwei 0x123 1/0.")
    assert len(column(page, "code")) == 2


def test_layouts_show_their_bytes(page: Any, site: Path) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal(32).astype(np.float32)
    open_explorer(page, site, f="mxfp4", p="mx-floor", x=" ".join(f"0x{b:08X}" for b in x.view(np.uint32).tolist()))
    t = mxspec.quantize(x[None], "mxfp4", profile="mx-floor")
    shown = dict(
        page.eval_on_selector_all(
            "#layouts .layout", "all => all.map(l => [l.querySelector('h3').textContent, l.querySelector('.bytes').textContent])"
        )
    )
    for names, data in shown.items():
        layout = get_layout(names.split(", ")[0])
        want = layouts.pack_blocks(t.codes, t.scales, layout) if len(layout.fields) > 1 else layouts.pack(t.codes, layout)
        assert data == want.tobytes().hex().upper(), names
    assert len(shown) >= 8


def test_what_a_profile_refuses_has_no_answer(page: Any, site: Path) -> None:
    open_explorer(page, site, f="mxfp4", p="gfloat-0.5/mx", x="1 nan")
    assert "refuses" in page.inner_text("#sides")
    page.fill("#numbers", "1 2")
    assert "refuses" not in page.inner_text("#sides")


@pytest.mark.parametrize(
    "fragment", ["f=__proto__&p=constructor&q=toString&n=99999&b=77&s=zz&t=x", "x=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", "&&&==%"]
)
def test_a_hostile_link_is_text(page: Any, site: Path, fragment: str) -> None:
    page.goto((site / "explorer.html").as_uri() + f"#{fragment}")
    assert page.query_selector_all("#explorer img") == []
    assert page.input_value("#format") == "mxfp4"
    assert page.inner_text(".side h3") == "mx-floor"


def test_every_profile_can_be_shown(page: Any, site: Path) -> None:
    """Also that the verdict of each is on the page."""
    open_explorer(page, site, x="1/3 -2 nan inf 1e-40")
    missing = page.evaluate(
        """() => {
          const set = (id, value) => { const e = document.getElementById(id); e.value = value; e.dispatchEvent(new Event('change')); };
          const bad = [];
          for (const format of Object.keys(mxspec.FORMATS)) {
            set('format', format);
            for (const { value } of [...document.getElementById('profile-a').querySelectorAll('option')]) {
              set('profile-a', value);
              const side = document.querySelector('.side');
              if (side.querySelector('h3').textContent !== value || !side.textContent.includes('judged: ')) bad.push([format, value]);
            }
          }
          return bad;
        }"""
    )
    assert missing == []


def test_narrow_windows_and_dark_colours(browser: Any, site: Path) -> None:
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme=scheme)
        open_explorer(page, site, f="nvfp4", p="nvfp4-te", q="te-2.17/nvfp4/4over6-kernel/mae", x=TEXT)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        ink, paper = page.evaluate(
            "[getComputedStyle(document.querySelector('.side h3')).color, getComputedStyle(document.querySelector('.side')).backgroundColor]"
        )
        assert contrast(ink, paper) > 7
        page.close()


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast of two colours, written rgb(r, g, b)."""

    def luminance(text: str) -> float:
        channels = [int(c) / 255 for c in text.removeprefix("rgb(").rstrip(")").split(",")]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
