"""The registry of known libraries: complete, cheap to read, and of one mind with the profiles and the packaging."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tomllib

import mxspec
from mxspec.profiles import Evidence, list_profiles, list_waiting
from mxspec_conformance.adapters import _convert, auto_round, quark
from mxspec_conformance.adapters.registry import Adapter, Library, Source, known_adapters
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.transports.loading import load_target
from mxspec_conformance.transports.opening import open_target

ROOT = Path(__file__).resolve().parents[1]
KNOWN = known_adapters()


def expected_profiles(adapter: Adapter) -> set[tuple[str, str]]:
    """(format, profile id) of all that an adapter may be compared with, whatever the library's release."""
    targets = [SimpleNamespace(VERSION=release) for release in ("2.10.0", "2.20.0")]
    tables = [adapter.profiles_one_level, *(adapter.expected_profiles(t) for t in targets)]
    return {item for table in tables for item in table.items()}


def test_reading_what_is_known_imports_no_library() -> None:
    script = (
        "import sys\n"
        "from mxspec_conformance.adapters.registry import known_adapters\n"
        "names = {a.library.imports for a in known_adapters().values()} - {'mxspec', 'ml_dtypes', 'numpy', None}\n"
        "print(sorted(names & sys.modules.keys()), 'torch' in sys.modules, 'mxspec_gpu' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False", "False"]


def test_light_libraries_come_first() -> None:
    light = [a.library.light for a in KNOWN.values()]
    assert light == sorted(light, reverse=True)
    assert {n for n, a in KNOWN.items() if a.library.light} >= {"gguf", "gfloat", "mlx", "ml_dtypes", "mxspec"}


@pytest.mark.parametrize("adapter", KNOWN.values(), ids=lambda a: a.name)
def test_an_adapter_names_what_exists(adapter: Adapter) -> None:
    for fmt, name in expected_profiles(adapter):
        assert name in {p.id for p in (*list_profiles(), *list_waiting(fmt)) if fmt in p.formats}
    assert all(mxspec.get_block(fmt).has_tensor_scale for fmt in adapter.profiles_one_level)
    library = adapter.library
    ways_to_tell = (library.imports, library.distribution, library.source)
    assert any(way is not None for way in ways_to_tell), "there is no way to tell whether it is here"
    assert re.fullmatch(r"[a-z][a-z0-9_-]*", adapter.name)
    assert all("==" in p or "[" not in p for p in (*library.packages, *library.bare_packages))


def test_every_measured_profile_has_a_target_that_follows_it() -> None:
    followed = {(name, fmt) for adapter in KNOWN.values() for fmt, name in expected_profiles(adapter)}
    measured = {(p.id, fmt) for p in list_profiles() for fmt in p.formats if p.evidence is Evidence.MEASURED}
    assert measured - followed == set()


def test_one_library_is_described_once() -> None:
    """Libraries are equal or have different names, and so have their environments."""
    libraries = {a.library for a in KNOWN.values()}
    assert len({x.name for x in libraries}) == len(libraries)


def test_the_light_extra_installs_the_light_libraries() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extra = {requirement.split(";")[0].strip() for requirement in project["optional-dependencies"]["light"]}
    needed = {re.split(r"[<>=]", requirement)[0] for requirement in project["dependencies"]}
    wanted = {p for a in KNOWN.values() if a.library.light for p in a.library.packages}
    assert {p for p in wanted if p.split("==")[0] not in needed} == extra


def test_the_torchao_extra_installs_what_its_adapter_needs() -> None:
    """torchao itself does not ask for torch."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(extras["torchao"]) == set(KNOWN["torchao"].library.packages)
    assert [re.split(r"[<>=]", requirement)[0] for requirement in extras["torch"]] == ["torch"]


@pytest.mark.parametrize("name", [n for n, a in KNOWN.items() if a.library.light and a.library.is_here()])
def test_a_target_bears_the_name_by_which_it_is_requested(name: str) -> None:
    session = open_target(name, in_process=True)
    assert session.capabilities.name == name
    assert session.capabilities.functions


@pytest.mark.parametrize("name", [n for n, a in KNOWN.items() if not a.library.is_here()])
def test_a_library_that_is_not_here_is_said_to_be_missing(name: str) -> None:
    with pytest.raises(TargetError) as info:
        load_target(name)
    assert str(info.value).startswith(f"{name} needs {KNOWN[name].library.requires}, which does not import here (")


def test_a_variable_names_what_is_not_on_the_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = Library(name="mine", requires="mine", source=Source("MXSPEC_MINE_SOURCE", "a checkout of mine"))
    assert library.source is not None
    assert not library.is_here()
    with pytest.raises(ImportError, match="MXSPEC_MINE_SOURCE is not set; it has to name a checkout of mine"):
        library.source.find()
    monkeypatch.setenv("MXSPEC_MINE_SOURCE", str(tmp_path))
    assert library.is_here()
    assert library.source.find() == tmp_path


class TestConversions:
    """What the adapters share changes no bit."""

    def test_nibbles(self) -> None:
        codes = np.arange(64, dtype=np.uint8).reshape(2, 32) & 15
        packed = _convert.pack_nibbles(codes)
        assert packed[0, :3].tolist() == [0x10, 0x32, 0x54]
        assert np.array_equal(_convert.unpack_nibbles(packed), codes)

    def test_six_bits(self) -> None:
        codes = np.arange(64, dtype=np.uint8).reshape(2, 32)
        packed = _convert.pack_six_bits(codes)
        bits = sum(int(c) << (6 * i) for i, c in enumerate(codes[1]))
        assert packed[1].tobytes() == bits.to_bytes(24, "little")
        assert np.array_equal(_convert.unpack_six_bits(packed), codes)

    @pytest.mark.parametrize("element", mxspec.ELEMENTS)
    def test_codes_of_values(self, element: str) -> None:
        codes = np.arange(mxspec.ELEMENTS[element].code_count, dtype=np.uint8)
        values = np.asarray(mxspec.decode(codes, element))
        numbers = ~np.isnan(values)
        assert np.array_equal(_convert.find_codes(values[numbers], element), codes[numbers])
        for wrong in (np.nan, 1.03125 + 2**-20):
            with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=f"without an {element} code"):
                _convert.find_codes(np.array([1, wrong], np.float32), element)


@pytest.mark.parametrize("watch", [partial(auto_round._record, function="quantize"), partial(quark._record)])
def test_threads_that_watch_a_library_do_not_meet(watch: Callable[..., Any]) -> None:
    """What is put into a library's module for one call is gone before the next begins."""

    def quantize(number: int) -> Any:
        time.sleep(1e-4)
        return SimpleNamespace(clone=lambda: number)

    kernels = SimpleNamespace(fake_quantize_to_low_precision_fp=quantize)
    library = SimpleNamespace(quantize=quantize, even_round=quantize, cast_to_float8_and_back=quantize, kernel_ext=kernels)
    before = dict(vars(library))
    wrong = []

    def work(number: int) -> None:
        for _ in range(20):
            with watch(library) as seen:
                (library.quantize if isinstance(seen, list) else library.even_round)(number)
            kept = seen if isinstance(seen, list) else list(seen.values())
            wrong.extend(kept if kept != [number] else [])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (wrong, vars(library)) == ([], before)


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8"])
def test_gfloat_decodes_arrays_as_its_blocks(fmt: str) -> None:
    gfloat = pytest.importorskip("gfloat")
    target = load_target("gfloat")
    block = mxspec.get_block(fmt)
    scales = np.array([0, 1, 126, 127, 128, 254, 255], np.uint8)
    codes = np.arange(2**block.element.bits, dtype=np.uint8)
    codes = np.resize(codes, (1, -(-codes.size // 32) * 32))
    info = getattr(gfloat.formats, f"format_info_{fmt}" + ("_e2m1" if fmt == "mxfp4" else ""))
    with np.errstate(over="ignore"):
        one_by_one = [np.float32(list(gfloat.decode_block(info, [s, *codes[0].tolist()]))) for s in scales.tolist()]
    stored = np.repeat(scales, codes.size // 32).reshape(scales.size, -1)
    returned = target.dequantize(np.repeat(codes, scales.size, axis=0), stored, fmt)
    assert returned.view(np.uint32).tolist() == np.stack(one_by_one).view(np.uint32).tolist()
