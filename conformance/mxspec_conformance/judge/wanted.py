"""Which requirements are asked for: all, or those whose id fits a glob. What no other one hangs on is not worked on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from mxspec.formats import BLOCKS, ELEMENTS
from mxspec_conformance.results.conclusion import NO_ANSWER
from mxspec_conformance.results.report import Report, Verdict
from mxspec_conformance.targets.interface import OPERATIONS
from mxspec_conformance.targets.operands import parse_product
from mxspec_vectors.topics import TOPICS

#: What a requirement's id may begin with: functions, and what is judged of a function under a name of its own.
JUDGED = tuple(dict.fromkeys((*OPERATIONS, "scale", "stochastic")))

#: Topics that no profile decides: they are judged by calls beyond those of the vectors.
OF_CALLS = frozenset({"call-size", "memory", "state", "refusal"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requirements that are asked for."""

    #: Globs of ids, separated by spaces, one of which fits; None: all.
    only: str | None = None
    #: Whether those that no profile decides are.
    calls: bool = True
    #: The formats, elements, layouts and products of a shard; None: all.
    names: frozenset[str] | None = None

    def fits(self, requirement: str) -> bool:
        """Whether one is, by its id."""
        if not self.calls and requirement.rpartition("/")[2] in OF_CALLS:
            return False
        if self.names is not None and requirement.split("/")[1] not in self.names:
            return False
        return self.only is None or any(fnmatchcase(requirement, glob) for glob in self.only.split())

    def list_each(self) -> Iterable[Wanted]:
        """Each glob by itself."""
        return (replace(self, only=glob) for glob in (self.only or "").split())

    def any_of(self, operation: str, name: str, topics: Iterable[str] = tuple(TOPICS)) -> bool:
        """Whether one of these topics is, of an operation and a format, element or layout."""
        everything = self.calls and self.only is None and self.names is None
        return everything or any(self.fits(f"{operation}/{name}/{topic}") for topic in topics)

    def explain_nothing(self, offered: Iterable[str] = ()) -> str:
        """What to say where no requirement fits: what the glob may have meant, and what lists the ids.

        offered: names of formats, elements, layouts and products that the target has.
        """
        words = f"no requirement of what was judged fits --only {self.only!r}"
        meant = self._guess(tuple(offered) or (*BLOCKS, *ELEMENTS))
        where = "ids are OPERATION/FORMAT/TOPIC; `pytest --mxspec-target TARGET --collect-only -q` lists those of a target"
        return f"{words}{f'; did you mean {meant}?' if meant else ''}\n{where}"

    def _guess(self, offered: Iterable[str]) -> str:
        """The glob with each part that is no name replaced by the name that it resembles; "" where it has none."""
        known = (JUDGED, tuple(offered), tuple(TOPICS))
        for parts in _FORMS.get((self.only or "").count("/"), ()):
            found = []
            for part, names in zip(parts((self.only or "").split("/")), known, strict=True):
                fits = any(fnmatchcase(name, part) for name in names)
                found += [part] if fits else get_close_matches(part, names, n=1)
            if len(found) == len(known):
                guess = "/".join(found).removesuffix("/*/*") + ("/*" if found[1:] == ["*", "*"] else "")
                return "" if guess == self.only else repr(guess)
        return ""


#: Slashes of a glob -> what its parts may stand for: operation, format, topic.
_FORMS: dict[int, tuple[Callable[[list[str]], tuple[str, str, str]], ...]] = {
    0: (lambda p: (p[0], "*", "*"), lambda p: ("*", "*", p[0]), lambda p: ("*", p[0], "*")),
    1: (lambda p: (p[0], "*", p[1]), lambda p: (p[0], p[1], "*"), lambda p: ("*", p[0], p[1])),
    2: (lambda p: (p[0], p[1], p[2]),),
}


EVERYTHING = Wanted()


def list_not_judged(report: Report, formats: Sequence[str], *, whole: bool, nearest: bool, options: str = "--") -> Iterator[str]:
    """What was named, and has no verdict.

    whole: what the target lists counts as named; nearest: a profile has to be named too; options: what their names begin with.
    """
    name = report.target["name"]
    capabilities = report.target["capabilities"]
    listed = (
        [*capabilities.get("formats", ()), *(parse_product(p).name for p in capabilities.get("products", ()))]
        if whole and not formats
        else []
    )
    if shard := report.details.get("shard"):
        formats, listed = ([one for one in some if one in shard["names"]] for some in (formats, listed))
    for each in (*formats, *listed):
        own = [r for r in report.requirements if r.format == each or any(f"{side}-".startswith(f"{each}-") for side in r.format.split("@"))]
        if (own or whole) and all(r.verdict is Verdict.UNSUPPORTED for r in own):
            notes = "; ".join(dict.fromkeys(r.note for r in own if r.note)) or "no requirement of it was judged"
            yield f"{name}: {each} is not judged: {notes}; name with {options}format what the target is to be judged in"
    judged = {r.format for r in report.requirements if r.operation in ("quantize", "scale") and r.verdict is not Verdict.UNSUPPORTED}
    chosen = [f for f in report.formats if f.format in judged and f.chosen == "nearest" and NO_ANSWER not in f.causes]
    if nearest and (found := dict.fromkeys(f.judged_against for f in chosen)):
        claim = ", ".join(map(repr, found))
        yield (
            f"{name} names no profile, so that a change of its rule would be judged by another one; write PROFILE = {claim} in it, "
            f"or pass {options}profile ('nearest' accepts whichever is nearest)"
        )
