"""Which machine, which boot, which system: asked in every observation."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe


@dataclass(frozen=True, slots=True)
class System:
    """`distribution` is os-release's ID plus VERSION_ID ("debian12", "ubuntu22.04"); `id_like` its family words;
    `arch` as the package manager names it on deb systems ("amd64"); `machine` as `uname -m`."""

    id: str
    version: str
    id_like: tuple[str, ...]
    codename: str
    kernel: str
    machine: str
    hostname: str

    @property
    def distribution(self) -> str:
        return f"{self.id}{self.version}"

    @property
    def family(self) -> str:
        """ "debian", "rhel", or the id itself when neither fits."""
        names = (self.id, *self.id_like)
        for family in ("debian", "rhel"):
            if family in names or (family == "rhel" and "fedora" in names):
                return family
        return self.id

    @property
    def arch(self) -> str:
        return {"x86_64": "amd64", "aarch64": "arm64"}.get(self.machine, self.machine)


@dataclass(frozen=True)
class SystemProbe(Probe[System]):
    """os-release, kernel and architecture."""

    @property
    def key(self) -> str:
        return "system"

    def script(self) -> str:
        return """\
uname -r; uname -m; cat /proc/sys/kernel/hostname
f=/etc/os-release; [ -r "$f" ] || f=/usr/lib/os-release
[ -r "$f" ] || unknown 'no os-release file'
cat "$f"
"""

    def parse(self, output: Output) -> System:
        kernel, machine, hostname, *rest = output.text.splitlines()
        pairs = dict(line.split("=", 1) for line in rest if "=" in line and not line.startswith("#"))
        values = {name: value.strip().strip("\"'") for name, value in pairs.items()}
        if "ID" not in values:
            raise ValueError("os-release has no ID")
        return System(
            id=values["ID"],
            version=values.get("VERSION_ID", ""),
            id_like=tuple(values.get("ID_LIKE", "").split()),
            codename=values.get("VERSION_CODENAME", ""),
            kernel=kernel,
            machine=machine,
            hostname=hostname,
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """Which machine and which boot. A boot is recognised by boot id *and* start of PID 1 (clock ticks), since a
    container's boot id is its kernel's. `systemd` tells whether systemd runs as PID 1."""

    machine_id: str
    boot_id: str
    pid1_start: int
    systemd: bool

    @property
    def boot(self) -> str:
        return f"{self.boot_id}/{self.pid1_start}"

    @property
    def text(self) -> str:
        return f"{self.machine_id}/{self.boot}"


@dataclass(frozen=True)
class IdentityProbe(Probe[Identity]):
    """machine-id, boot id, start of PID 1 (field 22 of /proc/1/stat), running systemd."""

    @property
    def key(self) -> str:
        return "identity"

    def script(self) -> str:
        return """\
if [ -r /etc/machine-id ]; then read -r m </etc/machine-id || m=; else m=; fi
read -r b </proc/sys/kernel/random/boot_id
s=$(sed 's/.*) //' /proc/1/stat | cut -d' ' -f20)
d=no; [ -d /run/systemd/system ] && d=yes
printf '%s\\n' "${m:-none}" "$b" "$s" "$d"
"""

    def parse(self, output: Output) -> Identity:
        machine, boot, start, systemd = output.text.split()
        return Identity(machine, boot, int(start), systemd == "yes")
