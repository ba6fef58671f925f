"""The quick attacks, each in a folder of its own; `python -m tests.attacks` runs all and prints what each gave before."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.attacks.model import Attack, Outcome
from tests.attacks.rows import ATTACKS
from tests.attacks.run import judge, run_attack

QUICK = [a for a in ATTACKS if a.quick]
posix = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what was left behind")


@posix
@pytest.mark.parametrize("attack", QUICK, ids=lambda a: a.id)
def test_an_attack_fails(attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Under a limit on the size of files bytecode would be cut short, and be imported by the next test.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    folder = tmp_path / "in"
    folder.mkdir()
    assert judge(attack, folder, run_attack(attack, folder)) == []


def outcome(**change: object) -> Outcome:
    given = {"code": 0, "out": b"", "err": b"", "seconds": 1.0, "memory": 1.0, "leaked": (), "hung": False} | change
    return Outcome(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, ""),
        ({"code": 1}, "exit code 1"),
        ({"out": b"Traceback (most recent call last)"}, "traceback"),
        ({"err": b"\x1b[31m"}, "escape sequence"),
        ({"seconds": 1e3}, "took 1000 s"),
        ({"memory": 1e4}, "took 10000 MB"),
        ({"leaked": ("sleep 30",)}, "processes left: sleep 30"),
        ({"hung": True}, "did not end"),
        ({"out": b"x" * 300_000}, "300000 bytes printed"),
    ],
)
def test_what_is_wrong_is_seen(tmp_path: Path, change: dict[str, object], wrong: str) -> None:
    """The judge of attacks has no verdict that is always the same."""
    found = judge(Attack(id="x", kind="x", what="x"), tmp_path, outcome(**change))
    assert [w for w in found if wrong in w] == found
    assert bool(found) == bool(wrong)


@posix
def test_what_is_left_behind_is_seen(tmp_path: Path) -> None:
    attack = Attack(id="x", kind="x", what="x", shell="setsid sleep 30 & sleep 1; touch .x-temporary", seconds=20)
    found = judge(attack, tmp_path, run_attack(attack, tmp_path))
    assert [w.partition(":")[0] for w in found] == ["processes left", "temporary files left"]


def test_every_attack_that_succeeded_before_is_tried_or_named() -> None:
    """Attacks of the list that no row repeats, each with the reason."""
    before = json.loads((Path(__file__).parent / "attacks" / "before.json").read_text("ascii"))["gave"]
    succeeded = {name for name, gave in before.items() if gave != "as expected"}
    left_out = json.loads((Path(__file__).parent / "attacks" / "left_out.json").read_text("ascii"))
    tried = {a.id for a in ATTACKS}
    assert succeeded - tried == set(left_out)


def test_the_committed_table_is_of_these_attacks_and_none_succeeds() -> None:
    table = json.loads((Path(__file__).parents[1] / "reports" / "attacks" / "attacks.json").read_text("ascii"))
    assert [row["id"] for row in table["rows"]] == [a.id for a in ATTACKS]
    assert [row["id"] for row in table["rows"] if row["now"] != "as expected"] == []
