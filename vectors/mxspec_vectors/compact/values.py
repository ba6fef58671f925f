"""Files of dequantize cases: rows whose codes repeat are stored for one period, and so are their values."""

from __future__ import annotations

from mxspec.formats import get_block
from mxspec_vectors.compact.groups import Case, Stored, flatten, group, join, rest_of, shared_of
from mxspec_vectors.document import Document
from mxspec_vectors.profile_table import check_table, list_profiles_of, make_table


def _find_period(codes: str, digits: int, k: int) -> int:
    """The smallest period after which the codes of a row repeat, the same in all rows; k where they do not."""
    row = codes[: k * digits]
    if row * (len(codes) // len(row)) != codes:
        return k
    for period in range(1, k):
        short = row[: period * digits]
        if (short * -(-k // period))[: len(row)] == row:
            return period
    return k


def _keep_period(text: str, width: int, period: int, k: int) -> str:
    """The first `period` of each k words."""
    return "".join(text[i : i + period * width] for i in range(0, len(text), k * width))


def _repeat_period(text: str, width: int, period: int, k: int) -> str:
    """The inverse of `_keep_period`."""
    rows = (text[i : i + period * width] for i in range(0, len(text), period * width))
    return "".join((row * -(-k // period))[: k * width] for row in rows)


def _widths(fmt: str, dtype: str) -> tuple[int, int]:
    """Hex digits of a code and of a value."""
    return (1 if get_block(fmt).element.bits <= 4 else 2), (8 if dtype == "float32" else 4)


def pack_dequantize(document: Document) -> Stored:
    """The JSON object of a dequantize document."""

    def rest(case: Case) -> Case:
        k, (digits, width) = case["shape"][1], _widths(document["format"], case["dtype"])
        period = _find_period(case["codes"], digits, k)
        values = [entry["values"] for entry in case["expect"]]
        short = [_keep_period(text, width, period, k) for text in values]
        if period == k or [_repeat_period(text, width, period, k) for text in short] != values:
            return {**rest_of(case, "expect"), "expect": values}
        return {**rest_of(case, "expect", "codes"), "period": period, "codes": case["codes"][: period * digits],
                "expect": short}  # fmt: skip

    digests = {name: entry["sha256"] for entry in document["digests"] for name in entry["profiles"]}
    return {
        **{key: value for key, value in document.items() if key not in ("profiles", "flags", "digests", "cases")},
        "profiles": make_table(document["cases"], document["profiles"]),
        "flags": document["flags"],
        "digests": {name: digests[name] for name in document["profiles"] if name in digests},
        "groups": group((shared_of(c), rest(c)) for c in document["cases"]),
    }


def expand_dequantize(stored: Stored) -> Document:
    """The document of a dequantize file.

    Raises VectorError where the profiles' symbols do not fit the cases.
    """
    table = stored["profiles"]
    check_table(table, sum(len(g["cases"]) for g in stored["groups"]))
    digests: dict[str, list[str]] = {}
    for name, digest in stored["digests"].items():
        digests.setdefault(digest, []).append(name)
    cases = []
    for number, (shared, case) in enumerate(flatten(stored)):
        whole = join(shared, {key: value for key, value in case.items() if key != "period"})
        values = case["expect"]
        if "period" in case:
            k, (digits, width) = case["shape"][1], _widths(stored["format"], case["dtype"])
            whole["codes"] = _repeat_period(case["codes"] * case["shape"][0], digits, case["period"], k)
            values = [_repeat_period(text, width, case["period"], k) for text in values]
        names = list_profiles_of(table, number, len(values))
        whole["expect"] = [{"profiles": n, "values": text} for n, text in zip(names, values, strict=True)]
        cases.append(whole)
    return {
        **{key: value for key, value in stored.items() if key not in ("profiles", "flags", "digests", "groups")},
        "profiles": list(table),
        "flags": stored["flags"],
        "digests": [{"profiles": names, "sha256": digest} for digest, names in digests.items()],
        "cases": cases,
    }
