"""The command `mxspec`: one module for each command, imported when it is called.

Help and version need neither NumPy nor rich: `cli.console` is imported where a command is run or has failed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

import mxspec
from mxspec_conformance.cli.streams import Stopped, drop_odd_sizes, heed_signals, open_missing_streams, settle_stdout
from mxspec_conformance.targets.errors import TargetError, is_refusal
from mxspec_conformance.targets.texts import MESSAGE, clean_text
from mxspec_vectors.writing import NothingWritten

#: Command -> the module of this package that holds it, under its own name.
COMMANDS = {
    "attribute": "attribute",
    "bundle": "transports",
    "check": "check",
    "compare": "compare",
    "convert": "convert",
    "dequantize": "quantize",
    "diff": "diff",
    "distinguish": "identify",
    "explain": "explain",
    "footprint": "footprint",
    "formats": "catalogue",
    "fuzz": "fuzz",
    "header": "transports",
    "identify": "identify",
    "kit": "kit",
    "layouts": "layouts",
    "lint": "lint",
    "profiles": "catalogue",
    "protocol": "transports",
    "prove": "prove",
    "quantize": "quantize",
    "report": "report",
    "score-tests": "score_tests",
    "show": "show",
    "site": "site",
    "smoke": "transports",
    "submit": "submit",
    "targets": "catalogue",
    "vectors": "vectors",
}

#: Of each command group.
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Command(click.Group):
    """A group whose commands are imported when they are called; reports errors that users can fix as one message with exit code 2.

    Args:
        modules: Command -> the module that holds it, under its own name.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self.modules = modules

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
        from mxspec_conformance.cli.console import fail  # before anything goes wrong: descriptors or memory may be short then

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


# attest compares a chip's answers with the model; it comes with the source distribution and a checkout, not with the wheel.
@click.group(
    cls=Command,
    modules={name: f"mxspec_conformance.cli.{module}" for name, module in COMMANDS.items()} | {"attest": "mxspec_lab.attest"},
    context_settings=SETTINGS,
)
@click.version_option(mxspec.__version__, prog_name="mxspec")
def main() -> None:
    """Check OCP MX and NVFP4 implementations bit for bit against a reference model.

    Exit codes of all commands: 0 and 1 are results; 2: the work could not be done, for the reason given; 3: mxspec itself
    failed, and stderr says what to report.
    """
