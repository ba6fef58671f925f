"""Commands that read and write files, called in odd ways: one message, exit code 2, and no file that was not requested."""

from __future__ import annotations

import inspect
import json
import struct
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from mxspec_conformance.cli.main import COMMANDS, main
from mxspec_conformance.cli.parameters import FileCommand, InputPath, OutputPath, TargetType


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)


def list_commands() -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for name, module in COMMANDS.items():
        command = getattr(import_module(module), name.replace("-", "_"))
        inner = command.commands.items() if isinstance(command, click.Group) else ((None, command),)
        found += [(name if part is None else f"{name} {part}", one) for part, one in inner]
    return found


@pytest.mark.parametrize(("name", "command"), list_commands(), ids=[name for name, _ in list_commands()])
def test_no_command_writes_over_what_it_reads(name: str, command: click.Command) -> None:
    """Every path says whether it is read or written, and who reads and writes compares them first."""
    types = [p.type for p in command.params]
    assert [t for t in types if isinstance(t, click.Path) and not isinstance(t, (InputPath, OutputPath))] == []
    reads = any(isinstance(t, (InputPath, TargetType)) for t in types)
    if reads and any(isinstance(t, OutputPath) for t in types):
        assert isinstance(command, FileCommand), inspect.getsourcefile(type(command))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("code-0d", "--timeout", "nan"), "nan is not a time"),
        (("code-0d", "--timeout", "inf"), "inf"),
        (("code-0d", "--profile", "zz"), "has no profiles; take --profile out"),
        (("scale-one-level-017fffff-6852be64ee@zz",), "'zz' is no input dtype"),
        (("scale-one-level-017fffff-6852be64ee[999]",), "the case has the numbers 0 to"),
        (("tie-even-saturate-0-175be7b870[999]",), "the case has the numbers 0 to"),
    ],
)
def test_show_refuses_what_it_would_not_use(arguments: tuple[str, ...], words: str) -> None:
    done = run("show", *arguments)
    assert done.exit_code == 2
    assert words in done.output


def test_a_kit_that_was_edited_stays(tmp_path: Path) -> None:
    call = ("kit", "c", "-o", tmp_path, "--format", "mxfp4", "--size", "16")
    assert run(*call).exit_code == 0
    held = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert run(*call).exit_code == 0  # the same files
    (tmp_path / "driver.c").write_text("mine")
    (tmp_path / "mxspec_kit.h").unlink()
    done = run(*call)
    assert done.exit_code == 2
    assert "driver.c exists and is another file" in done.output
    assert [p.name for p in tmp_path.iterdir()] == ["driver.c"]
    assert run(*call, "--force").exit_code == 0
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == held


def test_nothing_is_confirmed_of_a_file_without_blocks(tmp_path: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2, 32], "data_offsets": [0, 256]}}).encode()
    path = tmp_path / "m.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(256))
    done = run("attribute", path)
    assert done.exit_code == 2
    assert "no block-quantized tensor" in done.output
    assert "nothing contradicts" not in done.output
