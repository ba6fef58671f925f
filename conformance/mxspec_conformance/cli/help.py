"""The command `help`."""

from __future__ import annotations

import click

from mxspec_conformance.cli.main import Command, write_sections


@click.command()
@click.argument("name", default="", metavar="[all|COMMAND]")
@click.pass_context
def help(ctx: click.Context, name: str) -> None:  # noqa: A001  # a command's function has its name
    """Show the help of a command, or list all commands.

    Without an argument it is what `mxspec --help` shows.
    """
    root = ctx.find_root()
    group = root.command
    assert isinstance(group, Command)
    if not name:
        click.echo(root.get_help())
    elif name == "all":
        formatter = root.make_formatter()
        write_sections(group, root, formatter, whole=True)
        click.echo(formatter.getvalue().strip("\n"))
    else:
        _, command, _ = group.resolve_command(root, [name])
        assert command is not None
        click.echo(command.get_help(click.Context(command, info_name=name, parent=root)))
