"""No verdict hangs on a word: with every text replaced by gibberish the judge says the same of the same targets."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest

from tests.judge.rewording import SUMMARIES, reword, summarize

BY_WORDS = '''
"""A module that decides by words."""
def explain(name, mode): return f"{name} with elements rounded {mode}"
def is_deviation(text): return " with " not in text
said, key = explain("mx-floor", "to nearest"), "mx-floor"
'''


@pytest.mark.parametrize("which", SUMMARIES)
def test_no_verdict_hangs_on_a_word(which: str) -> None:
    """Verdicts, counts, exit codes, profiles and what deviates; of fuzzing the findings, of proofs the requirements."""
    paths = os.pathsep.join(p or "." for p in sys.path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.judge.rewording", which],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    reworded, plain = json.loads(done.stdout), summarize(which)
    assert len(plain["texts"]) > 20
    # What a target raised is in NumPy's words, not in ours.
    ours = {text for text in plain["texts"] if not text.startswith("ValueError: ")}
    assert not ours & set(reworded["texts"]), "texts that were not replaced"
    assert list(reworded["found"]) == list(plain["found"])
    for name, found in plain["found"].items():
        assert reworded["found"][name] == found, name


def test_a_decision_by_words_is_noticed() -> None:
    plain: dict[str, object] = {}
    exec(BY_WORDS, plain)
    reworded: dict[str, object] = {}
    exec(compile(reword(BY_WORDS, "planted"), "planted", "exec"), reworded)
    assert plain["said"] == "mx-floor with elements rounded to nearest"
    assert "elements" not in str(reworded["said"])
    assert reworded["key"] == "mx-floor"
    for namespace, deviates in ((plain, False), (reworded, True)):
        assert eval("is_deviation(said)", namespace) is deviates


def test_docstrings_stay() -> None:
    assert ast.get_docstring(reword(BY_WORDS, "planted")) == "A module that decides by words."
