"""The command `mxspec`: one module for each command, imported when it is called.

Help and version need neither NumPy nor rich: `cli.console` is imported where a command is run or has failed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import click

import mxspec
from mxspec.suggestions import did_you_mean
from mxspec_conformance.cli.streams import Stopped, drop_odd_sizes, heed_signals, open_missing_streams, settle_stdout
from mxspec_conformance.targets.errors import TargetError, is_refusal
from mxspec_conformance.targets.texts import MESSAGE, clean_text
from mxspec_vectors.writing import NothingWritten


@dataclass(frozen=True, slots=True)
class Listed:
    """A command in a list: the module that holds it under its own name, and the first line of its help, so that a list imports none."""

    module: str
    summary: str
    #: Whether `mxspec` alone names it.
    first: bool = False


def _of_checker(module: str, summary: str, *, first: bool = False) -> Listed:
    return Listed(f"mxspec_conformance.cli.{module}", summary, first)


#: Heading -> its commands, in the order in which they are listed.
SECTIONS: Mapping[str, Mapping[str, Listed]] = {
    "Judge a kernel": {
        "init": _of_checker("init", "Write a target file to fill in, and try it.", first=True),
        "check": _of_checker("check", "Judge TARGETs bit for bit by the golden vectors.", first=True),
        "fuzz": _of_checker("fuzz", "Search for inputs that TARGET gets wrong.", first=True),
        "prove": _of_checker("prove", "Verify TARGET exhaustively against a profile."),
        "smoke": _of_checker("transports", "Test whether TARGET starts, answers and stops."),
        "show": _of_checker("show", "Open a CASE of a report, and call a target with it again."),
        "diff": _of_checker("diff", "Compare two targets bit for bit."),
        "targets": _of_checker("catalogue", "List the libraries that have an adapter."),
        "bundle": _of_checker("transports", "Write all requests to OUT for offline execution."),
        "header": _of_checker("transports", "Print the path of mxspec_target.h."),
        "protocol": _of_checker("transports", "Print the JSON Schema of the process protocol."),
        # It compares a chip's answers with the model, and comes with the source distribution and a checkout, not with the wheel.
        "attest": Listed("mxspec_lab.attest", "Compare the output of a GPU probe with the model."),
    },
    "Understand a rule": {
        "explain": _of_checker("explain", "Show step by step how a block or a product is computed.", first=True),
        "identify": _of_checker("identify", "Identify the profile that TARGET follows.", first=True),
        "distinguish": _of_checker("identify", "Print the simplest block on which two profiles differ."),
        "compare": _of_checker("compare", "Compare formats and profiles on the numbers of FILE."),
        "formats": _of_checker("catalogue", "List element, scale and block formats."),
        "profiles": _of_checker("catalogue", "List the profiles, or print the arithmetic of one."),
        "layouts": _of_checker("layouts", "List the storage layouts; `layouts show NAME` draws one."),
    },
    "Checkpoints": {
        "lint": _of_checker("lint", "Check quantized checkpoints for inconsistencies.", first=True),
        "quantize": _of_checker("quantize", "Quantize a checkpoint by a profile, bit for bit.", first=True),
        "dequantize": _of_checker("quantize", "Decode a quantized checkpoint to plain numbers."),
        "convert": _of_checker("convert", "Convert a checkpoint to another storage convention."),
        "attribute": _of_checker("attribute", "Find the profiles that checkpoints are consistent with."),
        "footprint": _of_checker("footprint", "Show where the bytes of a checkpoint are."),
    },
    "Your tests and results": {
        "kit": _of_checker("kit", "Write golden blocks as files for another project's tests.", first=True),
        "score-tests": _of_checker("score_tests", "Measure what an acceptance test sees."),
        "vectors": _of_checker("vectors", "Build, verify, list and export the golden vectors."),
        "report": _of_checker("report", "Render results as HTML, Markdown, JUnit XML and badges."),
        "site": _of_checker("site", "Build a static site from results."),
        "submit": _of_checker("submit", "Check a result and file it for the site."),
        "help": _of_checker("help", "Show the help of a command, or list all commands."),
    },
}
#: Command -> the module that holds it.
COMMANDS = {name: one.module for commands in SECTIONS.values() for name, one in commands.items()}

#: Of each command group.
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Command(click.Group):
    """A group whose commands are imported when they are called; reports errors that users can fix as one message with exit code 2.

    Args:
        modules: Command -> the module that holds it, under its own name.
        sections: Heading -> the commands under it; without any, help lists all with the first line of their own.
    """

    def __init__(
        self, *args: Any, modules: Mapping[str, str], sections: Mapping[str, Mapping[str, Listed]] = MappingProxyType({}), **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.modules = modules
        self.sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands by name; those of the laboratory only where it is installed."""
        return sorted(name for name, module in self.modules.items() if find_spec(module.partition(".")[0]))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command; its module is imported on demand."""
        module = self.modules.get(cmd_name)
        if module is None:
            return None
        from mxspec_conformance.cli.console import EXIT_DEFECT, fail

        if not find_spec(module.partition(".")[0]):
            fail(f"`mxspec {cmd_name}` is not part of the wheel; run it from a checkout")
        command: click.Command = getattr(import_module(module), cmd_name.replace("-", "_"))
        command.epilog = command.epilog or f"Exit code {EXIT_DEFECT}: mxspec itself failed; stderr says what to report."
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with; an unknown one is refused with those like it."""
        if args[0] not in self.modules and args[0].isprintable():
            every = "`mxspec help all` lists all commands." if self.sections else f"known are {', '.join(self.modules)}."
            ctx.fail(f"No such command {args[0]!r}; {did_you_mean(args[0], self.modules) or every}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands that come first, and how the others are found."""
        if not self.sections:
            super().format_commands(ctx, formatter)
            return
        write_sections(self, ctx, formatter, whole=False)
        formatter.write_paragraph()
        formatter.write_text("All commands: mxspec help all. One of them: mxspec help COMMAND.")

    def main(self, args: Sequence[str] | None = None, *more: Any, **extra: Any) -> Any:
        """Run a command as a process does, from its arguments to its exit code."""
        open_missing_streams()
        drop_odd_sizes()
        with heed_signals():
            try:
                return super().main(args, *more, **extra)
            except Exception as error:  # unforeseen: it must not look like a verdict
                from mxspec_conformance.cli.console import EXIT_DEFECT, report_defect

                report_defect(error, sys.argv[1:] if args is None else args)
                sys.exit(EXIT_DEFECT)
            finally:
                lost = settle_stdout()
                if lost:
                    from mxspec_conformance.cli.console import EXIT_ERROR

                    with contextlib.suppress(OSError):
                        click.echo(f"mxspec: {lost}", err=True)
                    sys.exit(EXIT_ERROR)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            from mxspec_conformance.cli.console import fail  # before anything goes wrong: descriptors or memory may be short then
        except KeyboardInterrupt as stopped:
            click.echo("mxspec: stopped", err=True)
            ctx.exit(getattr(stopped, "code", 130))
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if len(error.format_message()) <= MESSAGE:
                raise
            raise click.UsageError(clean_text(error.format_message(), MESSAGE), error.ctx) from error
        except (TargetError, mxspec.FloatEnvironmentError, ValueError, ImportError) as error:
            if not is_refusal(error):
                raise
            fail(str(error))
        except Stopped as stopped:
            fail("stopped", code=stopped.code)
        except KeyboardInterrupt:
            fail("stopped", code=130)
        except MemoryError as error:
            fail(f"out of memory; {error}" if str(error) else "out of memory")
        except BrokenPipeError:
            raise  # the reader of our output has stopped (`| head`); click exits quietly
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            fail(f"{place}{error.strerror or error}{'; nothing was changed' if isinstance(error, NothingWritten) else ''}")


def write_sections(group: Command, ctx: click.Context, formatter: click.HelpFormatter, *, whole: bool) -> None:
    """Write commands under their headings; whole: those too that do not come first."""
    known = set(group.list_commands(ctx))
    for heading, commands in group.sections.items():
        rows = [(name, one.summary) for name, one in commands.items() if name in known and (whole or one.first)]
        with formatter.section(heading):
            formatter.write_dl(rows)


@click.group(cls=Command, modules=COMMANDS, sections=SECTIONS, context_settings=SETTINGS)
@click.version_option(mxspec.__version__, prog_name="mxspec")
def main() -> None:
    """Check OCP MX and NVFP4 implementations bit for bit against a reference model.

    Exit codes of all commands: 0 and 1 are results; 2: the work could not be done, for the reason given; 3: mxspec itself
    failed, and stderr says what to report.
    """
