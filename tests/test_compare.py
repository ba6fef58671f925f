"""What differences mean on ordinary data: `check --data`, `compare`, and the files that both read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import save_file

import mxspec
from mxspec.comparing import compare
from mxspec.containers import ContainerError
from mxspec.containers.numbers import read_numbers
from mxspec.measures import measure_error
from mxspec_conformance import check
from mxspec_conformance.cli.main import main
from mxspec_conformance.judge.impact import Data, normal_data
from mxspec_conformance.render import RENDERERS
from mxspec_conformance.results.report import Impact, read_report

from tests.support import assert_same

X = (np.arange(-480, 480, dtype=np.float32).reshape(10, 96) / 97).astype(np.float32)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], env={"COLUMNS": "80"})


class Target:
    """The model, with codes and scales changed."""

    NAME, VERSION, FORMATS = "changed", "1", ("mxfp4",)

    def quantize(self, x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        return self.change(t.codes, t.scales)

    def change(self, codes: Any, scales: Any) -> Any:
        return codes, scales


class Unsigned(Target):
    """Loses the sign of zero."""

    def change(self, codes: Any, scales: Any) -> Any:
        return np.where(codes == 8, 0, codes).astype(np.uint8), scales


class Doubled(Target):
    """Scales one too high."""

    def change(self, codes: Any, scales: Any) -> Any:
        return codes, scales + np.uint8(1)


class Narrow(Target):
    """Refuses all but one block to a row."""

    def quantize(self, x: Any, fmt: str) -> Any:
        if x.shape[1] > 32:
            raise NotImplementedError("one block alone")
        return super().quantize(x, fmt)


def impact_of(target: Target, **options: Any) -> tuple[Impact, ...]:
    return tuple(check(target, formats=["mxfp4"], quick=True, **options).formats[0].impact)


class TestImpact:
    """`judge.impact`."""

    def test_the_model_against_itself(self) -> None:
        (found,) = impact_of(Target())
        x = normal_data().tensors[0]
        error = measure_error(x, mxspec.quantize(x, "mxfp4").dequantize())
        assert (found.data, found.codes, found.scales) == ("N(0, 1)", x.size, x.size // 32)
        assert found.codes_differ == found.values_differ == found.scales_differ == 0
        assert found.sqnr == found.sqnr_profile == float(f"{error.sqnr:.9g}")
        assert found.largest == found.largest_profile == float(f"{error.largest:.9g}")

    def test_signs_of_zero_are_no_values(self) -> None:
        (found,) = impact_of(Unsigned())
        zeros = int((mxspec.quantize(normal_data().tensors[0], "mxfp4").codes == 8).sum())
        assert zeros > 100
        assert (found.codes_differ, found.values_differ, found.scales_differ) == (zeros, 0, 0)
        assert found.sqnr == found.sqnr_profile

    def test_scales_one_too_high(self) -> None:
        (found,) = impact_of(Doubled(), profile="mx-floor")
        assert (found.codes_differ, found.scales_differ, found.values_differ > 0.7 * found.codes) == (0, found.scales, True)
        assert found.sqnr is not None
        assert found.sqnr < 0.5

    def test_a_target_that_refuses_it_says_so(self) -> None:
        (found,) = impact_of(Narrow())
        assert (found.codes, found.sqnr) == (0, None)
        assert "one block alone" in found.note

    def test_data_of_the_user(self) -> None:
        data = [Data("mine", (X[:, :40], np.zeros((2, 32), np.float32)))]
        (found,) = impact_of(Target(), data=data)
        assert (found.data, found.codes) == ("mine", 10 * 64 + 64)
        assert impact_of(Target(), data=()) == ()

    def test_it_goes_through_json_and_every_report(self) -> None:
        report = check(Doubled(), profile="mx-floor", quick=True)
        document = json.loads(report.to_json())
        assert read_report(document).formats[0].impact == report.formats[0].impact
        for kind in ("html", "markdown"):
            assert "100 % of scales" in RENDERERS[kind]([document]).decode("utf-8")
        del document["formats"][0]["impact"]  # an older result
        assert read_report(document).formats[0].impact == []


class TestFiles:
    """`read_numbers`."""

    def test_npy(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", X.astype(ml_dtypes.bfloat16).astype(np.float64).reshape(2, 5, 96))
        (found,) = read_numbers(tmp_path / "x.npy")
        assert (found.name, found.shape, found.values.shape) == ("x.npy", (2, 5, 96), (10, 96))
        assert_same(found.values, X.astype(ml_dtypes.bfloat16).astype(np.float32))

    def test_safetensors(self, tmp_path: Path) -> None:
        path = tmp_path / "m.safetensors"
        half = X.astype(ml_dtypes.bfloat16)
        save_file({"a": X, "b": half, "c": X.astype(np.float16), "norm": X[0], "codes": np.zeros((4, 4), np.uint8)}, path)
        found = {t.name: t.values for t in read_numbers(path)}
        assert sorted(found) == ["a", "b", "c"]
        assert_same(found["b"], half.astype(np.float32))
        assert [t.name for t in read_numbers(path, names=["norm"])] == ["norm"]

    def test_gguf(self, tmp_path: Path) -> None:
        path = tmp_path / "m.gguf"
        writer = gguf.GGUFWriter(path, "test")
        writer.add_tensor("w", X)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        (found,) = read_numbers(path)
        assert_same(found.values, X)

    def test_whole_rows_up_to_a_number(self, tmp_path: Path) -> None:
        path = tmp_path / "m.safetensors"
        save_file({"a": X, "b": X}, path)
        assert [t.values.shape for t in read_numbers(path, most=13 * 96 + 5)] == [(10, 96), (3, 96)]
        assert [t.values.shape for t in read_numbers(path, most=1)] == [(1, 96)]

    def test_what_is_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(ContainerError, match="No such file"):
            list(read_numbers(tmp_path / "none.npy"))
        (tmp_path / "x.npy").write_bytes(b"no")
        with pytest.raises(ContainerError, match=r"is not a readable \.npy file"):
            list(read_numbers(tmp_path / "x.npy"))
        np.save(tmp_path / "i.npy", np.arange(64))
        with pytest.raises(ContainerError, match="has dtype int64"):
            list(read_numbers(tmp_path / "i.npy"))
        np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
        with pytest.raises(ContainerError, match=r"is not a readable \.npy file"):
            list(read_numbers(tmp_path / "o.npy"))
        save_file({"norm": X[0]}, tmp_path / "m.safetensors")
        with pytest.raises(ContainerError, match="of two axes or more; those that it has: norm"):
            list(read_numbers(tmp_path / "m.safetensors"))


class TestCompare:
    """`mxspec.comparing` and its command."""

    def test_figures_are_those_of_the_tensors(self) -> None:
        outcomes = compare([X, X[:3] * 8], ["mxfp4"], ["mx-rceil", "gfloat"])
        assert {o.profile.id for o in outcomes} == {"gfloat-0.5/mx", "mx-rceil"}
        assert outcomes[0].error.sqnr >= outcomes[1].error.sqnr
        for o in outcomes:
            noise = sum(
                float(((x.astype(np.float64) - mxspec.quantize(x, "mxfp4", profile=o.profile).dequantize()) ** 2).sum())
                for x in (X, X[:3] * 8)
            )
            assert o.error.noise == noise
            assert sum(o.codes) == X.size + 3 * 96
            assert sum(o.scales) == (X.size + 3 * 96) // 32

    def test_profiles_of_the_same_bits_are_one_row(self) -> None:
        x = np.array([[1.0] * 32], np.float32)
        (found,) = compare([x], ["mxfp4"], ["mx-floor", "mx-even"])
        assert (found.profile.id, found.same) == ("mx-floor", ("mx-even",))

    def test_the_command(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", X)
        json_file, html = tmp_path / "c.json", tmp_path / "c.html"
        done = run("compare", tmp_path / "x.npy", "--format", "mxfp4", "--format", "nvfp4", "--json", json_file, "--html", html)
        assert done.exit_code == 0, done.output
        document = json.loads(json_file.read_bytes())
        assert [(o["format"], o["bits"]) for o in document["outcomes"][:1]] == [("mxfp4", 4.25)]
        for o in document["outcomes"]:
            assert re.search(rf"^{re.escape(o['profile'])} +{o['format']} +{o['bits']:g} +{o['sqnr']:.2f} ", done.output, re.M)
        assert sum(document["exponents"].values()) + document["zeros"] == X.size
        page = html.read_text("utf-8")
        assert page.count("<svg") == 1 + 2 * 2
        assert "<script" not in page
        assert "http" not in page.replace("http-equiv", "")

    def test_every_profile(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", X)
        done = run("compare", tmp_path / "x.npy", "--format", "mxfp4", "--all", "--json", "-")
        found = {n for o in json.loads(done.output)["outcomes"] for n in (o["profile"], *o["same"])}
        assert found == {p.id for p in mxspec.list_profiles("mxfp4") if p.variant_of is None}

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["none.npy"], "none.npy: cannot be opened"),
            (["x.npy", "--format", "mxfp4", "--profile", "mx-flor"], "unknown profile 'mx-flor'"),
            (["x.npy", "--format", "nvfp4", "--profile", "mx-floor"], "profile mx-floor does not cover nvfp4"),
            (["x.npy", "--profile", "mx-floor", "--all"], "pass --profile or --all, not both"),
        ],
    )
    def test_wrong_options(self, arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        np.save("x.npy", X)
        done = run("compare", *arguments)
        assert done.exit_code == 2
        assert words in " ".join(done.output.split())


def test_check_with_data(tmp_path: Path) -> None:
    target = tmp_path / "good.py"
    target.write_text(
        "import mxspec\nNAME, VERSION, FORMATS = 'good', '1', ['mxfp4']\n"
        "def quantize(x, fmt):\n    t = mxspec.quantize(x, fmt)\n    return t.codes, t.scales\n",
        "utf-8",
    )
    np.save(tmp_path / "x.npy", X)
    done = run("check", target, "--data", tmp_path / "x.npy", "--quick")
    assert done.exit_code == 0, done.output
    assert "on x.npy: no code and no scale differs; SQNR " in done.output
    assert run("check", target, "--data", tmp_path / "no.npy").exit_code == 2
