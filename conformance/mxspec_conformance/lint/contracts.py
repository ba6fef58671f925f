"""Rules about the numeric contract that `mxspec quantize` writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mxspec.affine.checkpoints import digest_affine, find_affine
from mxspec.containers import Checkpoint, ContainerError
from mxspec.containers.contract import KEY, Contract, digest_arithmetic, parse_contract
from mxspec_conformance.lint.rules import Finding, find
from mxspec_conformance.lint.subject import Subject


def read_contracts(checkpoint: Checkpoint) -> dict[Path, Contract]:
    """The contracts of a checkpoint's files, as far as they can be read."""
    found: dict[Path, Contract] = {}
    for header in checkpoint.headers:
        try:
            contract = parse_contract(header.metadata.get(KEY), header.path)
        except ContainerError:  # `check_contracts` says so
            continue
        if contract is not None:
            found[header.path] = contract
    return found


def check_contracts(subject: Subject) -> Iterator[Finding]:
    """What the files say of themselves."""
    for header in subject.checkpoint.headers:
        try:
            parse_contract(header.metadata.get(KEY), header.path)
        except ContainerError as error:
            yield find("contract/damaged", str(error), offset=8)
    for path, contract in read_contracts(subject.checkpoint).items():
        stored = [(g.form.format_name, g.codes.name) for g in subject.groups if g.codes.path == path]
        stored += [(g.format.name, g.codes.name) for g in subject.affine.groups.values() if g.codes.path == path]
        others = [name for fmt, name in stored if fmt != contract.format_name]
        if others or not stored:
            what = f"{len(others)} of {len(stored)} quantized tensors are not {contract.format_name}"
            yield find("contract/format", what, others[0] if others else None, offset=8)
        try:
            digest = _digest(contract)
        except ValueError:
            text = f"{contract.profile} of {contract.format_name}, by mxspec {contract.version}"
            yield find("contract/profile", text, offset=8)
            continue
        if digest != contract.digest:
            text = f"{contract.profile} was {contract.digest[:16]}... in mxspec {contract.version}, and is {digest[:16]}..."
            yield find("contract/digest", text, offset=8)


def _digest(contract: Contract) -> str:
    """What the profile gives now. Raises ValueError for a profile or format that is not known."""
    if find_affine(contract.format_name) is not None:
        return digest_affine(contract.format_name, contract.profile)
    return digest_arithmetic(contract.format_name, contract.profile, scaled=contract.scaled)


CHECKS = (check_contracts,)
