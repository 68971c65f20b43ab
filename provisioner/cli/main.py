"""`provision`: finds the command, runs it, and turns whatever happens into an answer and an exit code.

Commands are imported when they are called; `provision --help` imports none of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from provisioner import __version__
from provisioner.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    Interrupted,
    ProvisionError,
    UsageError,
)

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("init:init", "Write an annotated inventory for hosts, with the versions found on them."),
    "plan": ("plan:plan", "Show what would change, and change nothing."),
    "apply": ("apply:apply", "Show what would change, ask, change it, and read again."),
    "lock": ("lock:lock", "Find the exact packages per distribution and write them beside the inventory."),
    "upgrade-driver": ("upgrade_driver:upgrade_driver", "Upgrade the driver node by node, and back where that fails."),
    "facts": ("facts:facts", "Show what is read from the hosts."),
    "drift": ("drift:drift", "Show which host differs from the others or from what is desired, and in what."),
    "inventory": ("inventory:inventory", "Show hosts and where each of their values comes from."),
    "tasks": ("tasks:tasks", "Show what a playbook can ask for."),
    "exec": ("execute:execute", "Run a command on hosts; asks first, and is journaled."),
    "containerd-config": ("containerd_config:containerd_config", "Edit a containerd config file or stream."),
}
"""Name → module:object below `provisioner.cli`, and the line that `--help` shows, in the order of `--help`."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which they are used."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(f"provisioner.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="\b\nExamples:\n  provision plan inventories/prod.toml\n  provision apply inventories/prod.toml --yes",
)
@click.version_option(__version__, prog_name="provision")
def cli() -> None:
    """Makes bare machines with NVIDIA cards ready for Kubernetes pods over SSH, and keeps them that way.

    Exit codes: 0 done; 1 something failed; 2 changes are pending (plan --detailed-exitcode, drift, lock --check);
    64 the command was wrong; 130 interrupted.
    """


def main() -> None:
    """The entry point of the `provision` program."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that can't show a character gets its escape, not a crash
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def _fail(error: ProvisionError, arguments: Sequence[str]) -> int:
    from provisioner.cli.view import report_error

    return report_error(error, _command(arguments), "--json" in _own(arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    try:
        code = cli.main(list(arguments), prog_name="provision", standalone_mode=False)
        return code if isinstance(code, int) else EXIT_DONE
    except ProvisionError as error:
        return _fail(error, arguments)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return UsageError.exit_code
    except click.ClickException as error:
        return _fail(_told(error), arguments)
    except (KeyboardInterrupt, click.Abort):
        return _fail(Interrupted("interrupted"), arguments)
    except BrokenPipeError:
        # Whoever read our output has gone; a second failing write at exit would only add a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except Exception as error:
        return _fail(_unexpected(error, _own(arguments)), arguments)


def _told(error: click.ClickException) -> ProvisionError:
    """click's own errors as ours; its exit code 2 for a wrong command line becomes 64."""
    if not isinstance(error, click.UsageError):
        what, _, remedy = error.format_message().partition("\n")
        return ProvisionError(what, remedy=remedy)
    path = error.ctx.command_path if error.ctx is not None else "provision"
    return UsageError(error.format_message(), remedy=f"`{path} --help` shows what it takes")


def _unexpected(error: Exception, arguments: Sequence[str]) -> ProvisionError:
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    if "-vv" in arguments:
        sys.stderr.write(text)
        where = "see the traceback above"
    else:
        handle, name = tempfile.mkstemp(prefix="provision-traceback-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        where = f"the traceback is in {Path(name)}"
    return ProvisionError(
        "provision itself failed",
        why=f"{type(error).__name__}: {error}",
        remedy=f"{where}; please report it. What hosts were changed is in the run's journal; a new plan shows the rest",
    )


def _own(arguments: Sequence[str]) -> Sequence[str]:
    """The words before `--`: behind it stands a command for hosts."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _command(arguments: Sequence[str]) -> str:
    """The command's name as far as it can be told from a command line that may be wrong."""
    words = [word for word in _own(arguments) if not word.startswith("-")]
    if not words or words[0] not in COMMANDS:
        return ""
    return " ".join(words[:2]) if words[0] in ("inventory", "tasks") else words[0]
