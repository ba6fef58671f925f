"""`python -m mxspec_lab`: the maintainers' commands."""

from __future__ import annotations

import click

from mxspec_conformance.cli.main import SETTINGS, Command


@click.group(
    cls=Command,
    modules={
        "bench": "mxspec_lab.bench",
        "evidence": "mxspec_lab.evidence.status",
        "mutants": "mxspec_lab.mutants.command",
        "record": "mxspec_lab.recordings.verdicts",
        "sweep": "mxspec_lab.sweeps.command",
        "verdicts": "mxspec_lab.recordings.verdicts",
    },
    context_settings=SETTINGS,
)
def main() -> None:
    """Measure mxspec itself: its speed, its vectors by mutants, its models on all inputs, whether committed results are current, and
    what the judge says of recorded libraries.

    Exit codes are those of `mxspec`.
    """


if __name__ == "__main__":
    main()
