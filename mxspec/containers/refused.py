"""Forms of 2:4 sparse weights that files hold and nothing here reads or writes, each with its reason."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refused:
    """One form."""

    #: As the library's configuration calls it.
    name: str
    #: What the tensors of a layer end with, all of them.
    suffixes: tuple[str, ...]
    reason: str


_NO_WITNESS = (
    "compressed-tensors 0.20 keeps the name and has no code that writes or reads it, so that nothing can be held against the "
    "library; store the weights dense (pack-quantized and the block formats keep the zeros of a 2:4 pattern), or decompress the "
    "file with the version of compressed-tensors that wrote it"
)

REFUSED: tuple[Refused, ...] = (
    Refused("sparse-24-bitmask", (".compressed", ".bitmask"), _NO_WITNESS),
    Refused("sparse-bitmask", (".compressed", ".bitmask", ".row_offsets"), _NO_WITNESS),
    Refused("marlin-24", (".weight_packed", ".scale_packed", ".meta"), _NO_WITNESS),
)


def explain_refusal(name: str) -> str | None:
    """Why a form of this name is not written; None for other names."""
    found = next((r for r in REFUSED if r.name == name), None)
    return None if found is None else f"{found.name} is neither read nor written: {found.reason}"


def find_refused(names: Collection[str]) -> tuple[Refused, str] | None:
    """The form of which tensors of these names are, the one with most of them, and the first of the names; None: there is none."""
    known = frozenset(names)
    for form in sorted(REFUSED, key=lambda r: -len(r.suffixes)):
        for name in names:
            base = name.removesuffix(form.suffixes[0])
            if name.endswith(form.suffixes[0]) and all(base + s in known for s in form.suffixes):
                return form, name
    return None


def describe_refused(names: Collection[str]) -> str:
    """What an error says besides, where tensors of these names are of such a form; else nothing."""
    found = find_refused(names)
    return "" if found is None else f". {found[1]} is of the form {found[0].name}: {found[0].reason}"
