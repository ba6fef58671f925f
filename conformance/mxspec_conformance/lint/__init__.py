"""`mxspec lint`: what is wrong with a checkpoint file, found without loading it anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mxspec.affine.checkpoints import find_affine
from mxspec.affine.profiles import list_affine_profiles
from mxspec.containers import Checkpoint, ContainerError, Fault, Header, Problem, open_checkpoint, read_header
from mxspec.containers.checkpoint import check_index, find_files, read_json
from mxspec.containers.header import Tensor
from mxspec.profiles import find_profile
from mxspec_conformance.lint import affine, blocks, contracts, integers, scalars, tensors
from mxspec_conformance.lint.against import Comparison, compare
from mxspec_conformance.lint.hypotheses import Departure, Explanation, Hypothesis
from mxspec_conformance.lint.rules import RULES, Finding, Rule, Severity, find
from mxspec_conformance.lint.subject import Subject
from mxspec_conformance.targets.errors import own_errors

__all__ = [
    "RULES", "Comparison", "Departure", "Explanation", "Finding", "Hypothesis", "LintResult", "Rule", "Severity", "lint",
]  # fmt: skip

SCHEMA = "mxspec-lint/1"
CHECKS: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    *tensors.CHECKS, *blocks.CHECKS, *scalars.CHECKS, *integers.CHECKS, *affine.CHECKS, *contracts.CHECKS,
)  # fmt: skip


#: Rules of tensors of which nothing is checked -> what they are, where their dtype is not what leaves them out.
_LEFT_OUT = {"tensor/not-checked": "", "tensor/ambiguous": "of two formats", "affine/ambiguous": "of several sizes of codes and groups"}


@dataclass(frozen=True, slots=True)
class LintResult:
    """What was found in one argument of lint."""

    path: Path
    #: "safetensors", "gguf", or None where the file is neither.
    container: str | None
    #: Stored tensors, and how many block-quantized ones they make, by convention and format.
    stored: int
    quantized: Mapping[str, int]
    findings: tuple[Finding, ...]
    #: Whether everything was checked: a file whose header is damaged is checked no further.
    complete: bool
    #: What became of each tensor, where there is an original to compare with.
    comparison: Comparison | None = None
    #: Quantized tensors of forms that are not known, by dtype and scales, and those of which several forms are possible.
    unchecked: Mapping[str, int] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0: nothing but notes; 1: errors or warnings; 2: the file could not be looked into, or nothing in it could be judged."""
        if not self.complete:
            return 2
        if any(f.rule.severity is not Severity.NOTE for f in self.findings):
            return 1
        return 0 if self.judged else 2

    @property
    def judged(self) -> bool:
        """Whether anything was judged; a file without quantized tensors is."""
        return bool(self.quantized) or all(f.rule.id not in _LEFT_OUT for f in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON has it."""
        return {
            "path": str(self.path), "container": self.container, "tensors": self.stored, "complete": self.complete,
            "quantized": dict(self.quantized),
            **({"not_checked": dict(self.unchecked)} if self.unchecked else {}),
            "findings": [
                {
                    "rule": f.rule.id, "severity": f.rule.severity.value, "file": f.file, "tensor": f.tensor,
                    "offset": f.offset, "found": f.text, "means": f.rule.means, "advice": f.rule.advice,
                    **({} if f.explanation is None else {"explanation": f.explanation.as_dict()}),
                }
                for f in self.findings
            ],
            **({} if self.comparison is None else {"against": self.comparison.as_dict()}),
        }  # fmt: skip


def lint(
    path: str | Path,
    *,
    formats: Collection[str] = (),
    against: str | Path | None = None,
    profile: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> LintResult:
    """Look at a GGUF or safetensors file, an index of shards, or a folder that holds one of these.

    formats: block formats that it holds, and a format of affine integers, where names and shapes leave that open. progress: called with what is examined.
    against: the unquantized checkpoint, with which every tensor is compared by its bits.
    profile: the id of the profile that tensors should follow; only with `against`.

    Damaged and hostile files give findings; nothing is raised for them. Raises ContainerError where `against` cannot be read,
    and ValueError for a profile that is not known, or one without `against`.
    """
    if profile is not None:
        if against is None:
            raise ValueError(f"profile = {profile!r} needs the original; pass against=FILE (--against FILE)")
        profile = _find_profile(profile)
    if against is not None:
        open_checkpoint(against)  # so that it is refused before anything is checked
    return _look(Path(path), formats, against, profile, progress)


@own_errors()
def _look(
    path: Path, formats: Collection[str], against: str | Path | None, profile: str | None, progress: Callable[[str], None] | None
) -> LintResult:
    findings: list[Finding] = []
    headers: list[Header] = []
    comparison: Comparison | None = None
    unchecked: Mapping[str, Sequence[Tensor]] = {}
    try:
        files, index = find_files(path)
    except (ContainerError, OSError) as error:
        return LintResult(path, None, 0, {}, (_from_error(error),), complete=False)
    for file in files:
        if progress is not None:
            progress(file.name)
        try:
            headers.append(read_header(file))
        except ContainerError as error:
            findings.append(_from_error(error, file.name))
        else:
            findings += [_from_problem(p, file.name) for p in headers[-1].problems]
    complete = len(headers) == len(files)
    if complete:
        findings += [find("container/index", text) for text in check_index(headers, index)]
        if len({h.container for h in headers}) > 1:
            findings.append(find("container/index", "GGUF and safetensors files are mixed"))
    container = headers[0].container if headers else None
    stored = sum(len(h.tensors) for h in headers)
    if findings or not headers:
        # What a damaged header says of its tensors is not worth a second finding.
        return LintResult(path, container, stored, {}, tuple(findings), complete)
    checkpoint = Checkpoint(path, tuple(headers), index, tuple(formats))
    folder = path if path.is_dir() else path.parent
    try:
        subject = Subject(
            checkpoint, config=_read_config(folder / "config.json", findings),
            quant_config=_read_config(folder / "hf_quant_config.json", findings),
            affine_format=next((f for f in formats if find_affine(f) is not None), None),
        )  # fmt: skip
        for check in CHECKS:
            if progress is not None:
                progress(check.__name__.removeprefix("check_").replace("_", " "))
            findings += [_with_file(f, checkpoint) for f in check(subject)]
        unchecked = tensors.list_unchecked(subject)
        if against is not None:
            claims = {p: c.profile for p, c in contracts.read_contracts(checkpoint).items()}
            unknown = {t.name for several in unchecked.values() for t in several}
            comparison = compare(
                checkpoint, against, affine=subject.affine, profile=profile, claims=claims, unknown=unknown, progress=progress
            )
            findings += [_with_file(f, checkpoint) for f in comparison.findings]
    except ContainerError as error:
        findings.append(_from_error(error))
        complete = False
    quantized = Counter(g.form.name for g in checkpoint.blocks.values())
    if complete:
        quantized += Counter(f"{g.form.convention} {g.format.name}" for g in subject.affine.groups.values())
    numbers = {kind: len(several) for kind, several in unchecked.items()}
    left_out = Counter(kind for f in findings if (kind := _LEFT_OUT.get(f.rule.id)))
    return LintResult(path, container, stored, quantized, tuple(findings), complete, comparison, {**numbers, **left_out})


def _find_profile(name: str) -> str:
    """The id of a profile of block formats or of affine integers. Raises ValueError for an unknown one."""
    if name in {p.id for p in list_affine_profiles()}:
        return name
    return find_profile(name).id


def _from_error(error: ContainerError | OSError, file: str | None = None) -> Finding:
    problem = error.problem if isinstance(error, ContainerError) else None
    return _from_problem(problem or Problem(Fault.UNREADABLE, str(error)), file)


def _from_problem(problem: Problem, file: str | None) -> Finding:
    return replace(find(f"container/{problem.fault}", problem.text, problem.tensor, offset=problem.offset), file=file)


def _with_file(finding: Finding, checkpoint: Checkpoint) -> Finding:
    tensor = checkpoint.tensors.get(finding.tensor or "")
    return finding if tensor is None else replace(finding, file=tensor.path.name)


def _read_config(path: Path, findings: list[Finding]) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        return read_json(path, "the configuration")
    except ContainerError as error:
        findings.append(_from_error(error, path.name))
        return None


def exit_code(results: Sequence[LintResult]) -> int:
    """The worst of several."""
    return max((r.exit_code for r in results), default=0)
