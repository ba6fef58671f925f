"""The explorer's arithmetic: what node computes from the generated script equals the model."""

import json
import shutil
import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest

import mxspec
from mxspec import layouts
from mxspec.arrays import rcp_approx
from mxspec.exact import rounded_log2
from mxspec.expressions import SF, Apply, Domain, Op, X
from mxspec.formats import BLOCKS
from mxspec.profiles import get_profile
from mxspec.profiles.schema import ScaleStep
from mxspec.rounding import DETERMINISTIC, Rounding
from mxspec_conformance.atlas.explorer import SCRIPT_NAME, link_block, render_explorer, target_command, write_explorer_script, write_target
from mxspec_conformance.atlas.javascript import find_log2_steps, list_block_layouts, write_javascript
from mxspec_conformance.kits import c99
from mxspec_conformance.kits.c99 import write_c99
from mxspec_conformance.transports.opening import open_target
from mxspec_lab.c99 import group_blocks, random_blocks, refuses_nan

from tests.explorer_in_node import list_lacking

ATLAS = Path(write_javascript.__wrapped__.__code__.co_filename).parent
REPORT = Path(__file__).resolve().parents[1] / "reports" / "atlas" / "explorer.json"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed: the explorer's script was not run")
#: Answers many questions in one process: a list of [function's text, arguments].
_DRIVER = """
const m = require('./mxspec.js');
const asked = JSON.parse(require('fs').readFileSync(0));
const blocks = ({ profile, format, tensor, x }) => {
  const row = m.find(profile, format, tensor !== null);
  return x.map((bits) => {
    const made = m.quantize(row, bits, tensor ?? undefined);
    const leaves = m.bind(row, tensor ?? undefined);
    return [made.scale, made.codes, made.codes.map((c) => m.bitsOfFloat(m.dequantize(row, c, made.scale, leaves)))];
  });
};
const encode = ({ element, rounding, x }) => x.map((bits) => m.encode(element, bits, rounding));
const layout = ({ index, codes, scale }) => m.pack(m.LAYOUTS[index], codes, scale);
const derive = ({ profile, amax }) => m.tensorScale(m.find(profile, 'nvfp4', true), m.floatOfBits(amax));
const explain = ({ profile, format, x }) => {
  const row = m.find(profile, format, false);
  return m.explain(row, m.quantize(row, x), 0).map((s) => [s.stage, s.text, m.bitsOfFloat(s.value)]);
};
const reciprocal = ({ x }) => x.map((bits) => m.bitsOfFloat(m.reciprocal(m.floatOfBits(bits))));
console.log(JSON.stringify(asked.map(([name, given]) => ({ blocks, encode, layout, derive, explain, reciprocal })[name](given))));
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explorer")
    (folder / "driver.js").write_text(_DRIVER, "utf-8")
    return write_target(folder)


def ask(program: Path, questions: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    run = subprocess.run(["node", "driver.js"], cwd=program.parent, input=json.dumps(questions), capture_output=True, text=True, check=True)
    answers: list[Any] = json.loads(run.stdout)
    return answers


def _sample(profile: str, fmt: str, two_level: bool) -> tuple[Any, Any]:
    """(tensor scale, blocks): some of the vectors, and random ones."""
    groups = list(group_blocks(fmt, two_level))
    tensor, rows = groups[len(profile) % len(groups)]
    x = np.concatenate([rows[:: max(1, len(rows) // 12)][:12], random_blocks(8, BLOCKS[fmt].k, len(profile))])
    chosen = get_profile(profile, fmt)
    if refuses_nan(chosen, fmt, two_level):
        x = x[np.isfinite(x).all(axis=1)]
    if chosen.unspecified_nan_input_scales:
        x = x[~np.isnan(x).any(axis=1)]
    return None if tensor is None else tensor.native(chosen), x


@needs_node
def test_every_profile_gives_the_bits_of_the_model(program: Path) -> None:
    """All of them, some blocks each; `python -m tests.explorer_in_node` tests all blocks."""
    questions, wanted = [], []
    for profile, fmt, two_level in write_javascript().rows:
        tensor, x = _sample(profile, fmt, two_level)
        bits = None if tensor is None else tensor.bits
        questions.append(("blocks", {"profile": profile, "format": fmt, "tensor": bits, "x": x.view(np.uint32).tolist()}))
        with np.errstate(all="ignore"):
            t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=tensor)
            y = np.ascontiguousarray(t.dequantize(np.float32)).view(np.uint32)
        wanted.append([[int(s), c, v] for s, c, v in zip(t.scales[:, 0], t.codes.tolist(), y.tolist(), strict=True)])
    for question, want, got in zip(questions, wanted, ask(program, questions), strict=True):
        assert got == want, {n: v for n, v in question[1].items() if n != "x"}


@needs_node
def test_encode_rounds_in_every_mode(program: Path) -> None:
    x = np.concatenate(
        [
            random_blocks(6, 32, 3).reshape(-1),
            np.array([0, -0.0, 0.25, 0.75, 2.5, -2.5, 5, 6, 7, 448, 464, 1.5 * 2.0**-127, np.inf, np.nan], np.float32),
        ]
    )
    modes = [
        (element, rounding) for element in ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "int8", "e8m0", "ue4m3") for rounding in DETERMINISTIC
    ]
    questions, wanted = [], []
    for element, rounding in modes:
        values = x[~(x < 0)] if element in ("e8m0", "ue4m3") else x
        questions.append(("encode", {"element": element, "rounding": rounding.value, "x": values.view(np.uint32).tolist()}))
        wanted.append(mxspec.encode(values, element, rounding=rounding).tolist())
    for mode, want, got in zip(modes, wanted, ask(program, questions), strict=True):
        assert got == want, mode


@needs_node
def test_the_reciprocal_is_the_measured_one(program: Path) -> None:
    """Ends of all pieces, other significands, numbers below and beyond the ends of the range, and what has no reciprocal."""
    ends = 0x3F800000 + (np.arange(128)[:, None] << 16 | np.array([0, 1, 0x7FFF, 0x8000, 0xFFFF])).reshape(-1)
    words = np.random.default_rng(2).integers(0, 1 << 32, 4096)
    special = np.array([0, 1, 0x7FFFFF, 0x800000, 0x7E7FFFFF, 0x7E800000, 0x7E800001, 0x7F7FFFFF, 0x7F800000, 0x7FC00000])
    x = np.concatenate([ends, words, special, special | 0x80000000]).astype(np.uint32)
    with np.errstate(all="ignore"):
        want = rcp_approx(x.view(np.float32))
    (got,) = ask(program, [("reciprocal", {"x": x.tolist()})])
    assert np.where(np.isnan(want), 0x7FC00000, want.view(np.uint32)).tolist() == got


@needs_node
def test_layouts_hold_the_bytes_of_the_catalogue(program: Path) -> None:
    entries, rng = list_block_layouts(), np.random.default_rng(1)
    questions, wanted = [], []
    for index, entry in enumerate(entries):
        fmt = BLOCKS[entry["formats"][0]]
        codes = rng.integers(0, fmt.element.code_count, (1, fmt.k), dtype=np.uint8)
        questions.append(("layout", {"index": index, "codes": codes[0].tolist(), "scale": 0x5A}))
        for name in entry["names"]:
            layout = layouts.get_layout(name)
            columns = max(fmt.k, layout.tile[1])
            wide = np.zeros((1, columns), np.uint8)
            wide[:, : fmt.k] = codes
            scales = np.zeros((1, columns // fmt.k), np.uint8)
            scales[0, 0] = 0x5A
            data = layouts.pack_blocks(wide, scales, layout) if len(layout.fields) > 1 else layouts.pack(wide, layout)
            wanted.append((index, name, data.tolist()))
    answers = ask(program, questions)
    for index, name, want in wanted:
        assert [byte or 0 for byte in answers[index]] == want, name
    assert {n for e in entries for n in e["names"]} >= {"nibble-low", "nibble-high", "fp6-le", "ggml-mxfp4", "ggml-nvfp4", "bytes"}


@needs_node
def test_tensor_scales_are_the_profiles_own(program: Path) -> None:
    amax = [0x3F800000, 0x4528F5C3, 0x00000001, 0x7F7FFFFF, 0x00000000]
    profiles = sorted({p for p, f, t in write_javascript().rows if t})
    answers = ask(program, [("derive", {"profile": p, "amax": a}) for p in profiles for a in amax])
    with np.errstate(all="ignore"):
        wanted = [
            mxspec.tensorscale.derive_tensor_scale(a, get_profile(p, "nvfp4")).bits for p in profiles for a in amax
        ]  # fmt: skip
    assert answers == wanted


@needs_node
def test_explained_steps_are_the_profiles_expressions(program: Path) -> None:
    x = np.linspace(-3, 5, 32, dtype=np.float32)
    (stages,) = ask(program, [("explain", {"profile": "mx-rceil", "format": "mxfp4", "x": x.view(np.uint32).tolist()})])
    steps = get_profile("mx-rceil", "mxfp4").steps(with_tensor_scale=False)
    assert [(name, text) for name, text, _ in stages] == [
        ("scale", str(steps.scale.value)), ("scaled", str(steps.scaled)), ("value", str(steps.dequantize)),
    ]  # fmt: skip
    assert stages[0][2] == int((np.float32(5) / np.float32(6)).view(np.uint32))


@needs_node
def test_the_program_speaks_the_protocol(program: Path) -> None:
    session = open_target(target_command(program, "nvfp4-te", "mx-rceil@mxfp4"))
    try:
        capabilities = session.capabilities
        assert set(capabilities.formats) == {"nvfp4", "mxfp4"}
        x = random_blocks(4, 32, 5)
        codes, scales = session.call("quantize", x, "mxfp4")
        want = mxspec.quantize(x, "mxfp4", profile="mx-rceil")
        np.testing.assert_array_equal(codes, want.codes)
        np.testing.assert_array_equal(scales, want.scales)
        with pytest.raises(Exception, match="pad it to 64"):
            session.call("quantize", np.zeros((1, 48), np.float32), "mxfp4")
        with pytest.raises(Exception, match="alone"):
            session.call("quantize", x, "mxint8")
    finally:
        session.close()


@needs_node
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": "float64"}, "refused: dtype float64"), ({"dtype": "toString"}, "refused: dtype toString"),
        ({"shape": [2, 32]}, "128 bytes of float32 are no array of shape [2,32]"), ({"shape": [-1, -32]}, "are no array"),
        ({"shape": []}, "are no array"), ({"shape": [32.5]}, "are no array"), ({"shape": "1x32"}, "are no array"),
    ],
)  # fmt: skip
def test_bytes_are_what_dtype_and_shape_say(program: Path, change: dict[str, Any], words: str) -> None:
    """Another dtype was read as bytes, and what a shape promised was filled with zeros."""
    x = {"dtype": "float32", "shape": [1, 32], "hex": "0000803f" * 32} | change
    request = {"cmd": "run", "id": "0", "function": "quantize", "arguments": {"x": x, "format": "mxfp4"}}
    lines = [request, {**request, "function": "__proto__"}, {"cmd": "stop"}]
    run = subprocess.run(
        ["node", "target.js"],
        cwd=program.parent,
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = map(json.loads, run.stdout.splitlines())
    assert words in first["error"]["message"]
    assert second["skipped"]["reason"] == "no __proto__ here"


@pytest.mark.parametrize("step", [ScaleStep.LOG2F_FLOOR, ScaleStep.LOG2F_CEIL])
def test_steps_of_rounded_logarithms_are_those_of_the_definition(step: ScaleStep) -> None:
    def exponent(bits: int) -> int:
        log = rounded_log2(Fraction(float(np.uint32(bits).view(np.float32))))
        return log.__floor__() if step is ScaleStep.LOG2F_FLOOR else log.__ceil__()

    for binade in (-149, -130, -126, -65, -64, -3, -2, -1, 0, 1, 6, 63, 126):
        low, high = (int(np.float32(2.0**e).view(np.uint32)) for e in (binade, binade + 1))
        distance = find_log2_steps(step)[binade + 149]
        first = low + distance if distance > 0 else high + distance
        assert exponent(first - 1 if first > low else low) == (binade if first > low else binade + 1)
        assert exponent(first) == binade + 1


def test_the_script_has_what_the_c_header_has() -> None:
    script, header = write_javascript(), write_c99()
    assert script.rows == header.rows
    assert not script.left_out
    assert "Not here" not in script.text.partition("*/")[0]


def test_what_a_language_lacks_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = get_profile("mx-floor", "mxfp4")
    steps = plain.steps(with_tensor_scale=False)
    changed = {
        "a": replace(steps, element=replace(steps.element, rounding=Rounding.SR)), "b": replace(steps, scaled=Apply(Op.MUL, Domain.RCP_APPROX, (X, SF))),
        "c": replace(steps, scale=replace(steps.scale, step=ScaleStep.LOG2F_ROUND)), "d": steps,
    }  # fmt: skip
    monkeypatch.setattr(c99, "list_levels", lambda _: [(replace(plain, id=name), s, False) for name, s in changed.items()])
    header, script = write_c99(["mxfp4"]), write_javascript.__wrapped__(("mxfp4",))
    lacks = [
        ("a", "mxfp4", "rounds stochastically"),
        ("b", "mxfp4", "computes * in the domain sm90.rcp"),
        ("c", "mxfp4", "finds scales by log2f-round"),
    ]
    assert header.left_out == tuple(lacks)
    assert script.left_out == tuple(lacks[:2])
    assert [row[0] for row in (*header.rows, *script.rows)] == ["d", "c", "d"]
    assert " * Not here:\n *   a (mxfp4): rounds stochastically\n *   b (mxfp4): computes" in header.text.partition("*/")[0]
    assert script.text.partition("*/")[0].endswith(
        " * Not here:\n *   a (mxfp4): rounds stochastically\n *   b (mxfp4): computes * in the domain sm90.rcp\n "
    )


def test_the_script_is_small_and_needs_nothing() -> None:
    text = write_explorer_script().decode("ascii")
    assert text.startswith(write_javascript().text)
    assert len(text) <= 250_000
    for word in ("fetch(", "XMLHttpRequest", "WebSocket", "import(", "http:", "https:", "eval(", "Function("):
        assert word not in text, word


def _environment() -> jinja2.Environment:
    return jinja2.Environment(loader=jinja2.FileSystemLoader(ATLAS / "templates"), autoescape=True, undefined=jinja2.StrictUndefined)


@pytest.mark.parametrize("judged", [True, False])
def test_the_page_says_the_verdict(judged: bool) -> None:
    verdict = {
        "conforms": True, "node": "v20.1.0", "mxspec": "0.1.0", "vectors": "ab" * 32, "case_set": "quick",
        "judged": [{"profile": "mx-floor", "format": "mxfp4", "conclusion": "conforms to mx-floor", "cases": 12345}],
        "compared": [{"blocks": 678, "values": 4096}],
    }  # fmt: skip
    page = render_explorer(_environment(), verdict if judged else None).decode("utf-8")
    assert SCRIPT_NAME in page
    assert "http:" not in page
    assert "https:" not in page
    assert ("12,345" in page) == judged
    assert ("not judged" in page) != judged


def test_the_report_speaks_of_todays_script() -> None:
    report = json.loads(REPORT.read_text("ascii"))
    assert report["conforms"] is True
    assert {(r["profile"], r["format"]) for r in report["judged"]} == set(write_javascript().profiles)
    assert {(r["profile"], r["format"], r["tensor_scale"]) for r in report["compared"]} == set(write_javascript().rows)
    assert not any(r["differ"] for r in report["compared"])
    assert not any(r["failed"] for r in report["judged"])
    assert all(r["conclusion"].startswith(("conforms to", "matches (provisional)")) for r in report["judged"])


def test_profiles_that_lack_a_row_are_run_again() -> None:
    report = json.loads(REPORT.read_text("ascii"))
    rows = write_javascript().rows
    lost = next(r for r in report["compared"] if r["profile"] == "nvfp4-te" and r["tensor_scale"])
    assert not list_lacking(report, rows)
    assert list_lacking({"compared": [r for r in report["compared"] if r is not lost]}, rows) == ["nvfp4-te"]


def test_a_link_shows_a_block_under_two_profiles() -> None:
    link = link_block("nvfp4", "nvfp4-te", "nvfp4-exact", (0x3F800000, 0x40D00000), 0x42C80000)
    assert link == "explorer.html#f=nvfp4&p=nvfp4-te&q=nvfp4-exact&x=0x3F800000+0x40D00000&t=amax&v=0x42C80000"
    assert link_block("mxfp4", "mx-floor", "nvfp4-te", (0x3F800000,), None) is None
