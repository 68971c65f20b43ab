"""`provision containerd-config`: containerd's config.toml edited for the nvidia handler, outside any inventory."""

from __future__ import annotations

import glob
import os
import sys
from pathlib import Path
from typing import Literal

import click

from provisioner.containerd import CONFIG, Edit, Mode, Refusal, edit, imported_patterns, remove
from provisioner.replacing import replace_file

_EPILOG = """Example, for the root file system of an image:

  provision containerd-config --imports-root rootfs rootfs/etc/containerd/config.toml
  --mode runtimeclass --containerd 1.7.24 --cgroup-driver systemd --write
"""


@click.command("containerd-config", epilog=_EPILOG)
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--mode", type=click.Choice([mode.value for mode in Mode]), default=None, help="How pods reach the cards."
)
@click.option("--containerd", required=True, metavar="VERSION", help="What `containerd --version` prints on the host.")
@click.option("--cgroup-driver", type=click.Choice(["systemd", "cgroupfs"]), help="The kubelet's on that host.")
@click.option(
    "--imports-root",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder that is / for the files named in `imports`. With a FILE, this machine's / unless given.",
)
@click.option(
    "--enable-cdi/--no-enable-cdi", default=None, help="Whether containerd injects CDI devices (1.7 and later)."
)
@click.option("--remove", "removing", is_flag=True, help="Take the handler out; the recorded default comes back.")
@click.option("--write", is_flag=True, help="Replace FILE instead of printing the result.")
def containerd_config(
    file: Path | None,
    mode: str | None,
    containerd: str,
    cgroup_driver: Literal["systemd", "cgroupfs"] | None,
    imports_root: Path | None,
    enable_cdi: bool | None,
    removing: bool,
    write: bool,
) -> None:
    """Edit containerd's config.toml so that the handler nvidia works.

    FILE is read (standard input without it; a FILE that doesn't exist counts as empty). The result goes
    to standard output, what was done and why to standard error. A refusal prints no result and exits 1.
    """
    if write and file is None:
        raise click.UsageError("--write needs a FILE to replace.")
    if not (mode or removing):
        raise click.UsageError("Give --mode default or --mode runtimeclass.")
    config = _read(file)
    path = _path_on_host(file, imports_root)
    imports = _imported(config, containerd, path, imports_root or Path("/")) if file or imports_root else {}
    answer = (
        remove(config, containerd=containerd, imports=imports, path=path)
        if removing
        else edit(
            config,
            mode=Mode(mode or Mode.RUNTIMECLASS),
            containerd=containerd,
            cgroup_driver=cgroup_driver,
            imports=imports,
            path=path,
            enable_cdi=enable_cdi,
        )
    )
    if isinstance(answer, Refusal):
        raise click.ClickException(f"{answer.reason}\n{answer.remedy}")
    _explain(answer)
    if not write:
        sys.stdout.buffer.write(answer.result)
        sys.stdout.buffer.flush()
    elif answer.changed and file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, answer.result)
        except OSError as error:
            raise click.ClickException(f"{file} could not be replaced and is as it was: {error.strerror}.") from None


def _explain(answer: Edit) -> None:
    for note in answer.notes:
        click.echo(note, err=True)
    for warning in answer.warnings:
        click.echo(f"warning: {warning}", err=True)


def _read(file: Path | None) -> bytes:
    if file is None:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise click.ClickException(f"{file} can't be read: {error.strerror}.") from None


def _path_on_host(file: Path | None, root: Path | None) -> str:
    if file is None:
        return CONFIG
    whole = Path(os.path.abspath(file))
    if root is not None and whole.is_relative_to(os.path.abspath(root)):
        return f"/{whole.relative_to(os.path.abspath(root))}"
    return str(whole)


def _imported(config: bytes, containerd: str, path: str, root: Path) -> dict[str, bytes]:
    """The files that the configuration imports, and those that they import, by their path on the host."""
    found: dict[str, bytes] = {}
    waiting = [(config, path)]
    while waiting:
        content, name = waiting.pop(0)
        for pattern in imported_patterns(content, name, containerd):
            below = f"{glob.escape(str(root).rstrip('/'))}{pattern}"
            for match in sorted(glob.glob(below, include_hidden=True)):
                on_host = "/" + os.path.relpath(match, root)
                if on_host not in found and on_host != path and os.path.isfile(match):
                    found[on_host] = _read(Path(match))
                    waiting.append((found[on_host], on_host))
    return found


if __name__ == "__main__":
    containerd_config()
