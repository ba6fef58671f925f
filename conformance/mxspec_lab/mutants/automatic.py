"""The model's own source, changed mechanically, judged by the vectors that the unchanged model made.

Each change is made in a copy of the model that a child process imports beside the model of the judge. What no case finds out is
either equivalent, or lies beyond what targets are asked, or is a gap: `REASONS` says which, by the place in the source.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import select
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import mxspec
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.judge.quantize import identical_profiles
from mxspec_conformance.judge.scale import scales_identical
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.observations.selection import EVERYTHING, quick_selection, use_selection
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.mutants.differences import find_differences, prepare_questions
from mxspec_lab.mutants.judging import judge_target, render_rows
from mxspec_lab.mutants.reasons import reason_for
from mxspec_lab.mutants.source import MODULES, Change, change_source, list_changes
from mxspec_lab.pools import forked_pool
from mxspec_vectors.cases import StochasticRule, load_stochastic_cases
from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest

SCHEMA = "mxspec-automatic/1"
#: Seconds after which a change counts as killed: the model no longer answers.
PATIENCE = 300.0
QUESTIONS_SEED = 1

Modules = dict[str, ModuleType]


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from changed source."""

    def __init__(self, module: str, source: str) -> None:
        self._module, self._source = module, source

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """The changed module's spec; others are found as ever."""
        if name != self._module:
            return None
        return importlib.util.spec_from_loader(name, self)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed source."""
        exec(compile(self._source, f"<changed {self._module}>", "exec"), module.__dict__)


def _is_model(name: str) -> bool:
    return name == "mxspec" or name.startswith("mxspec.")


@contextmanager
def _modules(other: Modules) -> Iterator[None]:
    """The model's modules are these while the context lasts; what is imported meanwhile joins them."""
    clean = {name: module for name, module in sys.modules.items() if _is_model(name)}
    for name in clean:
        del sys.modules[name]
    sys.modules.update(other)
    try:
        yield
    finally:
        for name in [n for n in sys.modules if _is_model(n)]:
            other[name] = sys.modules.pop(name)
        sys.modules.update(clean)


class ChangedModel:
    """A target: a changed copy of the model under one profile."""

    VERSION, DTYPES = "changed", ["float32", "float16", "bfloat16"]
    FORMATS, ELEMENTS = list(mxspec.BLOCKS), [*mxspec.ELEMENTS, *mxspec.SCALES]

    def __init__(self, modules: Modules, profile: Profile) -> None:
        self.NAME, self._modules, self._profile = "changed model", modules, profile.id
        self.DTYPES = list(profile.dtypes)
        self.TENSOR_SCALE = profile.tensor.native.value if profile.tensor else "decode"
        self._needs_tensor = profile.one_level is None

    def _do(self, function: str, *args: Any, tensor_scale: float | None = None, **kwargs: Any) -> Any:
        with _modules(self._modules):
            model = self._modules["mxspec"]
            if tensor_scale is not None:
                kwargs["tensor_scale"] = model.TensorScale.from_float(self.TENSOR_SCALE, tensor_scale)
            return getattr(model, function)(*args, **kwargs)

    def quantize(
        self, x: Any, fmt: str, tensor_scale: float | None = None, axis: int = -1, pad: bool = False,
        block: tuple[int, int] | None = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Codes and scales."""
        t = self._do("quantize", x, fmt, profile=self._profile, tensor_scale=tensor_scale, axis=axis, pad=pad, block=block)
        return t.codes, t.scales

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Values."""
        return self._do("dequantize", codes, scales, fmt, profile=self._profile, tensor_scale=tensor_scale)

    def encode(self, x: Any, element: str, rounding: str = "rne", overflow: str = "saturate") -> Any:
        """Codes of single numbers."""
        sign = "ignore" if element in mxspec.SCALES else "raise"
        return self._do("encode", x, element, rounding=rounding, overflow=overflow, sign=sign)

    def decode(self, codes: Any, element: str) -> Any:
        """Values of single codes."""
        return self._do("decode", codes, element)

    def encode_stochastic(self, x: Any, element: str, random_bits: Any) -> Any:
        """Codes by the integer rule."""
        return self._do("encode", x, element, rounding="sr", random_bits=random_bits)

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """The tensor scale."""
        return float(self._do("tensor_scale", x, fmt, self._profile).value)


@lru_cache(maxsize=1)
def list_tasks() -> tuple[tuple[str, str, str], ...]:
    """(operation, format, profile) of the normative profiles and of single numbers, the cheapest first."""
    tasks = [(o, e, "mx-floor") for e in mxspec.ELEMENTS for o in ("decode", "encode_stochastic", "encode")]
    tasks += [(o, e, "mx-floor") for e in mxspec.SCALES for o in ("decode", "encode")]
    for fmt in mxspec.BLOCKS:
        for p in mxspec.list_profiles(fmt):
            if p.kind is Kind.NORMATIVE:
                tasks += [("quantize", fmt, p.id)]
                if fmt == "nvfp4":
                    tasks += [("dequantize", fmt, p.id), ("tensor_scale", fmt, p.id)]
        if fmt != "nvfp4":
            tasks.append(("dequantize", fmt, "mx-floor"))
    return tuple(tasks)


@lru_cache(maxsize=1)
def list_descriptive() -> tuple[tuple[str, str], ...]:
    """One profile of real stacks for each combination of rules, and of what its format can hold."""
    seen, tasks = set(), []
    for fmt, block in mxspec.BLOCKS.items():
        for p in mxspec.list_profiles(fmt):
            level = p.two_level or p.one_level
            if p.kind is Kind.NORMATIVE or level is None:
                continue
            e = level.element
            rules = (
                level.scale.step, level.scale.rounding, level.scale.underflow, e.rounding, e.overflow, e.zero, e.nan, e.nan_own,
                e.add_half_floor_f32, e.half_floor_domain, e.int8_lowest, e.error is not None, e.unbounded_fields,
                e.binade_log2f, p.amax_nan, p.flush_inputs, level.normalize is not None,
                level.alternative and (level.alternative.norm, level.alternative.order, level.alternative.total),
                block.element.twos_complement, block.element.nan_code is None, block.element.inf_code is None,
            )  # fmt: skip
            if rules not in seen:
                seen.add(rules)
                tasks.append((fmt, p.id))
    return tuple(tasks)


def import_changed(change: Change) -> Modules:
    """A copy of the model with the change made."""
    modules: Modules = {}
    finder = _Finder(change.module, change_source(change))
    with _modules(modules):
        sys.meta_path.insert(0, finder)
        try:
            importlib.import_module("mxspec")
            importlib.import_module(change.module)
        finally:
            sys.meta_path.remove(finder)
    return modules


def judge_change(change: Change) -> dict[str, Any]:
    """What became of a change: `verdict` (killed or survives), and by what; of a survivor, `differs`."""
    try:
        modules = import_changed(change)
    except Exception as error:
        return {"verdict": "killed", "level": "import", "by": f"{type(error).__name__}: {error}"[:120]}
    verdict = judge_modules(modules, f"{change.module}.{change.inside}" if change.is_in_function else None)
    if verdict["verdict"] == "survives":
        with _modules(modules):
            differs = find_differences(modules["mxspec"], prepare_questions(QUESTIONS_SEED))
        for fmt, name, dtype in (q.about for q in differs if q.about is not None):
            if not _agrees(modules, mxspec.get_profile(name, fmt), mxspec.BLOCKS[fmt], dtype):
                return {"verdict": "killed", "level": "other profiles", "by": f"quantize/{fmt} {name}"}
        verdict["differs"] = [q.name for q in differs]
    return verdict


def judge_modules(modules: Modules, function: str | None = None) -> dict[str, Any]:
    """The verdict on a copy of the model; function: only what calls it need be judged."""
    tasks = [t for t in list_tasks() if function is None or function in reached(t)]
    others = [t for t in list_descriptive() if function is None or function in reached(("quantize", *t))]
    if not tasks and not others and not (function or "").startswith(_STOCHASTIC):
        return {"verdict": "survives", "by": "not called"}
    for level, selection in (("quick", quick_selection()), ("full", EVERYTHING)):
        with use_selection(selection):
            for operation, fmt, name in tasks:
                profile = mxspec.get_profile(name, fmt if fmt in mxspec.BLOCKS else "mxfp4")
                found = judge_target(ChangedModel(modules, profile), operation, fmt, name, stop=True)
                if found.kills:
                    by = f"{operation}/{fmt} {name}: {min(found.kills)[2]}"
                    return {"verdict": "killed", "level": level, "by": by}
    for fmt, name in others:
        if not _agrees(modules, mxspec.get_profile(name, fmt), mxspec.BLOCKS[fmt]):
            return {"verdict": "killed", "level": "other profiles", "by": f"quantize/{fmt} {name}"}
    if (function is None or function.startswith(_STOCHASTIC)) and not _rounds_as_te(modules):
        return {"verdict": "killed", "level": "other profiles", "by": "stochastic/e2m1 te-software"}
    return {"verdict": "survives"}


_STOCHASTIC = "mxspec.stochastic"


def _rounds_as_te(modules: Modules) -> bool:
    """Whether Transformer Engine's rule, which targets are not asked for, still gives its answers in the vectors."""
    with _modules(modules):
        encode = importlib.import_module(_STOCHASTIC).encode_te_stochastic
        for case in load_stochastic_cases("e2m1"):
            if case.rule is StochasticRule.TE_SOFTWARE:
                try:
                    with np.errstate(all="ignore"):
                        codes = encode(case.x, (case.random_bits & 0xFF).astype(np.uint8))
                except Exception:
                    return False
                if not np.array_equal(codes, case.codes):
                    return False
    return True


def _agrees(modules: Modules, profile: Profile, block: mxspec.BlockFormat, dtype: str | None = None) -> bool:
    """Whether a profile still gives every bit of its answers in the vectors, in a dtype or in its first one."""
    target = ChangedModel(modules, profile)
    target.DTYPES = [dtype or profile.dtypes[0]]
    session = InProcessSession(target, target.NAME)
    observations = Observations(session, block)
    lost = [u for u in observations.unanswered if profile.id in u.case.answers]
    if profile.tensor is not None and judge_target(target, "tensor_scale", block.name, profile.id).kills:
        return False
    return (
        not lost
        and profile.id in identical_profiles(observations.answered, block, [profile])
        and scales_identical(observations.scales, block, profile)
    )


@lru_cache(maxsize=256)
def reached(task: tuple[str, str, str]) -> frozenset[str]:
    """The functions of the model, as module.function, that are called while a fresh copy is imported and does a task."""
    operation, fmt, name = task
    profile, root = (mxspec.get_profile(name, fmt if fmt in mxspec.BLOCKS else "mxfp4"), str(Path(mxspec.__file__).parent))
    called: set[str] = set()
    codes: set[Any] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code not in codes:
            codes.add(code)
            if code.co_filename.startswith(root):
                called.add(f"{frame.f_globals['__name__']}.{code.co_qualname.replace('.<locals>', '')}")

    modules: Modules = {}
    sys.setprofile(note)
    try:
        with _modules(modules):
            importlib.import_module("mxspec")
        target = ChangedModel(modules, profile)
        if profile.kind is Kind.NORMATIVE:
            judge_target(target, operation, fmt, name)
        else:
            _agrees(modules, profile, mxspec.BLOCKS[fmt])
    finally:
        sys.setprofile(None)
    return frozenset(called)


def judge_unchanged() -> dict[str, Any]:
    """The verdict on a copy of the model as it is, which has to survive."""
    modules: Modules = {}
    with _modules(modules):
        importlib.import_module("mxspec")
    return judge_modules(modules)


def judge_in_child(change: Change, patience: float = PATIENCE) -> dict[str, Any]:
    """`judge_change` in a child process: a crash and a hang are verdicts."""
    reader, writer = os.pipe()
    here, parent = os.pipe()  # its other end goes with this process
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a worker's only other thread waits for the parent's end
        child = os.fork()
    if child == 0:  # pragma: no cover - measured by what it returns
        os.close(reader)
        os.close(parent)
        threading.Thread(target=_end_with, args=(here,), daemon=True).start()
        try:
            result = judge_change(change)
        except BaseException as error:  # the judge's own, as a target's exceptions are verdicts
            result = {"verdict": "broken", "by": f"{type(error).__name__}: {error}"[:500]}
        with suppress(OSError):
            os.write(writer, json.dumps(result).encode("utf-8"))
        os._exit(0)
    os.close(writer)
    os.close(here)
    try:
        ready, _, _ = select.select([reader], [], [], patience)
        data = os.read(reader, 1 << 16) if ready else b""
        if not ready:
            os.kill(child, signal.SIGKILL)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(reader)
        os.close(parent)
        os.waitpid(child, 0)
    if not data:
        return {"verdict": "killed", "level": "crash" if ready else "timeout", "by": "no answer"}
    answer: dict[str, Any] = json.loads(data)
    if answer["verdict"] == "broken":
        raise RuntimeError(f"{change.id} cannot be judged: {answer['by']}")
    return answer


def _end_with(pipe: int) -> None:
    """End this process with the one that holds the other end of a pipe."""
    os.read(pipe, 1)
    os._exit(1)


def sample_changes(count: int, seed: int) -> list[Change]:
    """Changes drawn without replacement from all of them; a larger count adds to a smaller one's."""
    every = [change for module in MODULES for change in list_changes(module)]
    random.Random(seed).shuffle(every)
    return every[:count]


def judge_row(change: Change, digest: str) -> dict[str, Any]:
    """The line of the state file for a change."""
    started = time.monotonic()
    row = {"change": asdict(change), "vectors": digest, **judge_in_child(change)}
    return {**row, "seconds": round(time.monotonic() - started, 1)}


def run_automatic(
    state: Path, count: int, seed: int, *, jobs: int = 1, progress: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Judge a sample, `jobs` changes at a time; one line of JSON for each in `state`, where an earlier run goes on."""
    digest = vector_digest(operations=NUMERIC_OPERATIONS)
    done = _read_state(state, digest)
    changes = {json.dumps(asdict(change)): change for change in sample_changes(count, seed)}
    missing = [change for key, change in changes.items() if key not in done]
    if missing:
        progress("the unchanged model, and what calls what")
        for task in (*list_tasks(), *(("quantize", *t) for t in list_descriptive())):
            reached(task)
        verdict = judge_unchanged()
        if verdict["verdict"] != "survives":
            raise RuntimeError(f"the unchanged model does not pass: {verdict['by']}; restore the vectors first")
        progress("the unchanged model's answers to the second witness")
        prepare_questions(QUESTIONS_SEED)
        # Forked workers have at once what was read and traced above.
        with forked_pool(jobs) as pool:
            futures = [pool.submit(judge_row, change, digest) for change in missing]
            for future in as_completed(futures):
                row = future.result()
                done[json.dumps(row["change"])] = row
                with state.open("a", encoding="ascii") as file:
                    file.write(json.dumps(row) + "\n")
                alive = sum(r["verdict"] == "survives" for r in done.values())
                progress(f"{len(done)} of {count}, {alive} alive: {Change(**row['change']).id}")
    return [done[key] for key in changes]


def _read_state(state: Path, digest: str) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    if state.exists():
        for line in state.read_text("ascii").splitlines():
            with suppress(json.JSONDecodeError):  # the last line of a run that was stopped
                row = json.loads(line)
                if row["vectors"] == digest:
                    rows[json.dumps(row["change"])] = row
    return rows


def automatic_document(rows: Sequence[Mapping[str, Any]], count: int, seed: int) -> dict[str, Any]:
    """The published table."""
    survivors = []
    for row in rows:
        if row["verdict"] == "survives":
            change = Change(**row["change"])
            kind, reason = reason_for(change, row["differs"])
            survivors.append({**row["change"], "differs": row["differs"], "kind": kind, "reason": reason})
    kinds = Counter(s["kind"] for s in survivors)
    every = [change for module in MODULES for change in list_changes(module)]
    return {
        "schema": SCHEMA,
        "vectors": vector_digest(operations=NUMERIC_OPERATIONS),
        "seed": seed,
        "possible": len(every),
        "tried": count,
        "killed": sum(r["verdict"] == "killed" for r in rows),
        "killed_by": dict(Counter(r["level"] for r in rows if r["verdict"] == "killed")),
        "survivors": dict(kinds),
        "by_module": {
            m: dict(Counter(r["verdict"] for r in rows if r["change"]["module"] == m)) for m in MODULES
        },
        "alive": survivors,
    }  # fmt: skip


def render_automatic(document: Mapping[str, Any]) -> str:
    """Canonical text: one survivor to a line."""
    return render_rows(document, "alive")
