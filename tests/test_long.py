"""The split into `make test` and `make test-long` names what there is, and loses nothing."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any

import pytest

from tests import long


def test_every_row_names_a_test(request: pytest.FixtureRequest) -> None:
    """Of a file that was collected; of the others the file."""
    missing = [name for name in (*long.LONG, *long.SAMPLED) if not (request.config.rootpath / name.partition("::")[0]).is_file()]
    assert missing == []
    assert request.config.stash[long.STALE_ROWS] == []


def test_every_so_many_parameter_sets_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long, "LONG", {"a.py::f": (4, 1), "a.py::g[1]": (0, 1), "a.py::h": (0, 1)})
    monkeypatch.setattr(long, "SAMPLED", {})
    marks: dict[str, list[str]] = {}

    def item(name: str) -> Any:
        return SimpleNamespace(nodeid=name, add_marker=marks.setdefault(name, []).append)

    names = [*(f"a.py::f[{n}]" for n in range(40)), "a.py::g[0]", "a.py::g[1]", "a.py::h", "a.py::other"]
    long.mark([item(name) for name in names])
    stay = [name for name in names if "long" not in marks[name]]
    assert stay == [*(f"a.py::f[{n}]" for n in range(0, 40, 4)), "a.py::g[0]", "a.py::other"]
    assert long.list_stale([item("a.py::f[0]"), item("a.py::h")]) == ["a.py::g[1]"]


def test_seeds_share_the_long_sets_of_what_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long, "SAMPLED", {"a.py::f": 3})
    names = [*(f"a.py::f[{n}]" for n in range(20)), *(f"a.py::g[{n}]" for n in range(5))]

    def item(name: str) -> Any:
        is_long = name != "a.py::f[0]"
        return SimpleNamespace(nodeid=name, get_closest_marker=lambda _: is_long or None)

    runs = [long.leave_out([item(name) for name in names], seed) for seed in range(3)]
    for taken, left in runs:
        assert [i.nodeid for i in taken if "::g" in i.nodeid] == names[20:]
        assert len(taken) + len(left) == 25
    longs = [i.nodeid for taken, _ in runs for i in taken if "::f" in i.nodeid and i.nodeid != "a.py::f[0]"]
    assert sorted(longs) == sorted(names[1:20])


def test_every_defect_names_tests(request: pytest.FixtureRequest) -> None:
    """Of `tests/before_after.toml`, which runs them on older commits too."""
    root = request.config.rootpath
    for tests in tomllib.loads((root / "tests" / "before_after.toml").read_text("utf-8")).values():
        for test in tests:
            path, _, name = test.partition("::")
            assert f"def {name.partition('[')[0]}" in (root / path).read_text("utf-8"), test
