"""Rules about the numeric contract that `mxspec quantize` writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
        groups = [g for g in subject.groups if g.codes.path == path]
        others = [g for g in groups if g.form.format_name != contract.format_name]
        if others or not groups:
            what = f"{len(others)} of {len(groups)} block-quantized tensors are not {contract.format_name}"
            yield find("contract/format", what, tensor=others[0].codes.name if others else None, offset=8)
        try:
            digest = digest_arithmetic(contract.format_name, contract.profile, scaled=contract.scaled)
        except ValueError:
            text = f"{contract.profile} of {contract.format_name}, by mxspec {contract.version}"
            yield find("contract/profile", text, offset=8)
            continue
        if digest != contract.digest:
            text = f"{contract.profile} was {contract.digest[:16]}... in mxspec {contract.version}, and is {digest[:16]}..."
            yield find("contract/digest", text, offset=8)


CHECKS = (check_contracts,)
