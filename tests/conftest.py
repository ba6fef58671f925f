"""Hypothesis profiles, and the seed of everything that the tests draw.

MXSPEC_HYPOTHESIS chooses the profile: `dev`, `ci` (no database of earlier failures) or `deep` (many examples). MXSPEC_SEED is the
seed of directed samples and of Hypothesis; without it `ci` takes 0 and the others draw one. The first lines of every run print
both. (Hypothesis also draws constants of the modules that are loaded: with one seed, other tests in the run may change examples.)

`make test` runs what is not marked `long`, `make test-long` what is: tests/seconds.py says which.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, core, settings

import mxspec
from mxspec import formats, profiles

from tests import once, seconds
from tests.few_calls import ask_few_calls
from tests.support import seed

#: Formats that are registered before a test is.
_BUILT_IN = {*formats._blocks, *formats._scales, *formats._elements}

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.differing_executors]

#: Examples of each property; `make test-deep` draws more.
EXAMPLES = 30

settings.register_profile("dev", deadline=None, max_examples=EXAMPLES, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=EXAMPLES,
    database=None,
    print_blob=True,
    suppress_health_check=_SLOW_IS_FINE,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
settings.register_profile("deep", deadline=None, max_examples=2000, suppress_health_check=_SLOW_IS_FINE)

PROFILE = os.environ.get("MXSPEC_HYPOTHESIS", "dev")


def pytest_configure(config: pytest.Config) -> None:
    """Loads the hypothesis profile; fixes the seed before any worker process starts, so that all draw the same."""
    if PROFILE not in ("dev", "ci", "deep"):
        raise pytest.UsageError(f"MXSPEC_HYPOTHESIS={PROFILE!r}; allowed are dev, ci and deep")
    settings.load_profile(PROFILE)
    os.environ.setdefault("MXSPEC_SEED", "0" if PROFILE == "ci" else str(secrets.randbelow(1 << 32)))
    if core.global_force_seed is None:  # --hypothesis-seed was not given
        core.global_force_seed = seed()  # type: ignore[assignment]  # as that option does
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ[once.FOLDER] = tempfile.mkdtemp(prefix="mxspec-tests-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(once.FOLDER), ignore_errors=True))


@pytest.fixture(autouse=True)
def few_calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small call matrix, where the judge runs in this process and the test is not marked `all_calls`."""
    if "all_calls" not in request.keywords:
        ask_few_calls(monkeypatch.setattr)


@pytest.fixture(autouse=True)
def restored_registry() -> Iterator[None]:
    """What is registered is gone after the test."""
    mxspec.list_profiles()  # so that what comes with the libraries is there before
    known: tuple[Any, ...] = (formats._blocks, formats._scales, formats._elements, profiles._profiles)
    before = [dict(registry) for registry in known]
    yield
    for registry, kept in zip(known, before, strict=True):
        registry.clear()
        registry.update(kept)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what is long, before tests are chosen by their marks; of the long ones leaves those that this seed does not draw."""
    if more := {*formats._blocks, *formats._scales, *formats._elements} - _BUILT_IN:
        raise pytest.UsageError(
            f"importing the tests has registered {', '.join(sorted(more))}, for every test: register in a test, which undoes it"
        )
    config.stash[seconds.COLLECTED] = set(seconds.group(items))
    quick = set(map(id, seconds.list_quick(items, seconds.read_seconds())))
    rest = [item for item in items if id(item) not in quick]
    for item in rest:
        item.add_marker("long")
    if config.option.markexpr == "long":
        taken = set(map(id, seconds.draw_long(rest, seconds.read_seconds(), seed())))
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in taken])
        items[:] = [item for item in items if id(item) in taken]


def pytest_report_header(config: pytest.Config) -> str:
    """How to replay this run."""
    return f"replay: MXSPEC_SEED={seed()} MXSPEC_HYPOTHESIS={PROFILE} ({settings().max_examples} examples)"
