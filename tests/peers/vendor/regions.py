"""Regions of a CUDA source: definitions found by name, and known again by their digests.

A result that speaks of somebody's source names the lines that it speaks of. No compiler is asked: comments, strings and lines of
the preprocessor are blanked, and what lies between balanced braces outside of them is one definition.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

#: What has no say in where a definition ends: comments, strings, characters, and lines of the preprocessor with what continues them.
_BLANKED = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])' | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_SCOPE = re.compile(r"(?:inline\s+)?namespace\b[^;{}()]*$|extern\s*$")
_TYPE = re.compile(r"^(?:typedef\s+)?(?:struct|class|union|enum(?:\s+class|\s+struct)?)\b")
_ATTRIBUTE = re.compile(r"\b(?:alignas|__align__|__launch_bounds__|__attribute__|__declspec|decltype|sizeof|noexcept)\s*$")

_ASSIGNED = re.compile(r"(?<![=!<>])=(?!=)")


class RegionError(ValueError):
    """A region that is not there, or not what was recorded; the message names the file and the definition."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition outside of functions."""

    #: Of a function, a type, a constant or an alias; empty where none could be made out.
    name: str
    #: Lines from 1, both included.
    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class Region:
    """A definition that a result speaks of."""

    #: Below the root of the source.
    file: str
    name: str
    #: Which of the definitions with this name, from 0: overloads and specializations follow each other.
    index: int
    first: int
    last: int
    #: SHA-256 of the text.
    digest: str


def list_definitions(text: str) -> list[Definition]:
    """All definitions outside of functions, in order; those inside of namespaces count, namespaces do not.

    Raises RegionError where braces do not balance.
    """
    blanked = _BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    found = []
    depth = start = 0
    for position, character in enumerate(blanked):
        if character == "{":
            if depth == 0 and _SCOPE.search(_head(blanked[start:position])):
                start = position + 1
            else:
                depth += 1
        elif character == "}":
            if depth == 0:
                start = position + 1  # of a namespace
            else:
                depth -= 1
                if depth == 0 and not _needs_semicolon(blanked[start : position + 1]):
                    found.append(_define(text, blanked, start, position + 1))
                    start = position + 1
        elif character == ";" and depth == 0:
            found.append(_define(text, blanked, start, position + 1))
            start = position + 1
    if depth:
        raise RegionError(f"{depth} braces are still open at the end; give a source as it was published")
    return [d for d in found if d.text.strip(" ;\n")]


def cut_region(text: str, file: str, name: str) -> list[tuple[Region, str]]:
    """Every definition of a name with its text.

    Raises RegionError where there is none.
    """
    found = [d for d in list_definitions(text) if d.name == name]
    if not found:
        raise RegionError(f"{file} defines no {name}; is it another version of the source?")
    return [
        (Region(file, name, index, d.first, d.last, hashlib.sha256(d.text.encode()).hexdigest()), d.text) for index, d in enumerate(found)
    ]


def verify_region(text: str, region: Region) -> None:
    """Check that a source still has a region as it was recorded; it may have moved.

    Raises RegionError.
    """
    found = cut_region(text, region.file, region.name)
    if region.index >= len(found):
        raise RegionError(f"{region.file} defines {region.name} {len(found)} times, and the record speaks of number {region.index + 1}")
    here = found[region.index][0]
    if here.digest != region.digest:
        raise RegionError(
            f"{region.file}, line {here.first}: {region.name} is another than was recorded (SHA-256 {here.digest[:12]}, recorded "
            f"{region.digest[:12]}); take the commit that the record names, or make a new record"
        )


def _head(blanked: str) -> str:
    return blanked.rsplit(";", 1)[-1].strip()


def _needs_semicolon(blanked: str) -> bool:
    """Whether a closing brace does not end the definition: after a type or an initializer a semicolon does."""
    head = _without_templates(blanked).split("{", 1)[0]
    return bool(_TYPE.match(head)) or "=" in re.sub(r"operator\s*[=!<>+*/-]+|[<>=!]=|<[^()]*>|\([^)]*\)", "", head)


def _define(text: str, blanked: str, start: int, end: int) -> Definition:
    begin = start + len(blanked[start:end]) - len(blanked[start:end].lstrip())
    first, last = text.count("\n", 0, begin) + 1, text.count("\n", 0, end) + 1
    return Definition(_name(blanked[begin:end]), first, last, text[begin:end])


def _name(blanked: str) -> str:
    """The name that a definition binds."""
    head = _without_templates(blanked)
    if head.startswith("static_assert"):
        return ""
    if alias := re.match(r"using\s+(\w+)\s*=", head):
        return alias[1]
    if kind := _TYPE.match(head):
        named = re.match(r"(?:\s*(?:alignas|__align__)\s*\([^;{]*?\)\s*(?=\w))?\s*(\w+)", head[kind.end() :])
        return named[1] if named else ""
    for parenthesis in re.finditer(r"\(", head):
        before = head[: parenthesis.start()]
        if before.count("(") == before.count(")") and not _ATTRIBUTE.search(before) and not _ASSIGNED.search(before):
            called = re.search(r"(operator\s*\S+?|\w+)\s*(?:<[^()]*>)?\s*$", before)
            return called[1] if called else ""
    bound = re.search(r"(\w+)\s*(?:\[[^=]*\]\s*)*(?:=|\{|;|$)", head)
    return bound[1] if bound else ""


def _without_templates(blanked: str) -> str:
    """The definition without the parameters of its templates."""
    head = blanked.strip()
    while match := re.match(r"template\s*<", head):
        depth, nested, position = 1, 0, match.end()
        while depth and position < len(head):
            character = head[position]
            nested += (character == "(") - (character == ")")
            if not nested:
                depth += (character == "<") - (character == ">")
            position += 1
        head = head[position:].lstrip()
    return head
