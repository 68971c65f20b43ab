"""A driver that was installed by NVIDIA's .run file, past the package manager."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe


@dataclass(frozen=True, slots=True)
class RunfileDriver:
    """`uninstaller` the program that takes it away again; `version` as the installer's log names it, "" when the
    log is gone."""

    uninstaller: str
    version: str = ""


@dataclass(frozen=True)
class RunfileProbe(Probe[RunfileDriver]):
    """nvidia-uninstall (or nvidia-installer) where no package owns it; absent otherwise. A log alone is the trace
    of an installation that is gone or that failed."""

    @property
    def key(self) -> str:
        return "driver of a .run file"

    def script(self) -> str:
        return r"""
for f in /usr/bin/nvidia-uninstall /usr/local/bin/nvidia-uninstall /usr/bin/nvidia-installer; do
    [ -e "$f" ] || continue
    r=$(readlink -f "$f")
    if command -v dpkg-query >/dev/null 2>&1; then
        dpkg-query -S "$f" >/dev/null 2>&1 || dpkg-query -S "$r" >/dev/null 2>&1 && continue
    elif command -v rpm >/dev/null 2>&1; then
        rpm -qf "$f" >/dev/null 2>&1 && continue
    else unknown 'no package manager tells who owns a file'
    fi
    v=$(sed -n 's/^installer version: *//p' /var/log/nvidia-installer.log 2>/dev/null | tail -n 1)
    printf '%s %s\n' "$f" "$v"
    exit 0
done
absent
"""

    def parse(self, output: Output) -> RunfileDriver:
        path, _, version = output.text.strip().partition(" ")
        return RunfileDriver(path, version)
