"""What a run takes of the tests: all of the quick ones, and of the others all within so many seeds."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import pytest

from tests.seconds import COLLECTED, LONG, QUICK, draw_long, list_quick, read_seconds


@dataclass(frozen=True)
class Item:
    """A test that was collected."""

    nodeid: str
    share: float = 0.0

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        """Its mark."""
        return pytest.mark.share(self.share).mark if name == "share" and self.share else None


TESTS = [*(Item(f"a.py::f[{n}]") for n in range(40)), Item("a.py::g[0]"), Item("a.py::g[1]"), Item("a.py::h"), Item("a.py::new")]
SECONDS = {"a.py::f": QUICK / 4, "a.py::g": LONG / 2, "a.py::h": 9 * LONG}


def test_the_quick_ones_of_a_function_are_spread() -> None:
    quick = [item.nodeid for item in list_quick(TESTS, SECONDS)]
    assert quick == ["a.py::f[0]", "a.py::f[10]", "a.py::f[20]", "a.py::f[30]", "a.py::new"]


@pytest.mark.parametrize("seconds", [SECONDS, {**SECONDS, "a.py::f": LONG / 3}, {**SECONDS, "a.py::f": 2 * LONG}])
def test_seeds_share_what_one_run_cannot_afford(seconds: dict[str, float]) -> None:
    quick = set(list_quick(TESTS, seconds))
    rest = [item for item in TESTS if item not in quick]
    for function, one in seconds.items():
        mine = [item for item in rest if item.nodeid.partition("[")[0] == function]
        every = ceil(len(mine) * one / LONG)
        drawn = [item for seed in range(1000, 1000 + every) for item in draw_long(mine, seconds, seed)]
        assert sorted(item.nodeid for item in drawn) == sorted(item.nodeid for item in mine)
        assert max(len(draw_long(mine, seconds, seed)) for seed in range(every)) <= ceil(len(mine) / every)


def test_a_mark_gives_a_function_another_share() -> None:
    tests = [Item(f"a.py::f[{n}]", share=12 * LONG) for n in range(24)]
    assert [len(draw_long(tests, {"a.py::f": LONG}, seed)) for seed in range(4)] == [12] * 4


def test_what_was_measured_is_there(request: pytest.FixtureRequest) -> None:
    """Of the files that were collected; of the others the file."""
    names = read_seconds()
    assert [name for name in names if not (request.config.rootpath / name.partition("::")[0]).is_file()] == []
    known = request.config.stash[COLLECTED]
    files = {name.partition("::")[0] for name in known}
    assert [name for name in names if name.partition("::")[0] in files and name not in known] == []
