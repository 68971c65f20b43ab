"""NVIDIA cards and switches on the PCI bus, and what the kernel's driver shows of them.

Read from files only: an nvidia command run as root makes missing device files and loads modules
(NVIDIA/nvidia-container-toolkit#50), and so would change what is to be observed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from provisioner.model.fact import Output, Probe

DISPLAY_CLASSES = ("0300", "0302", "0380")
"""PCI classes of cards: VGA controller, 3D controller, other display controller."""
SWITCH_CLASS = "0680"
"""PCI class (bridge, other) under which an NVSwitch stands."""


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One NVIDIA PCI function. `address` "0000:41:00.0"; `device` the PCI device id; `driver` the kernel driver
    bound to it ("nvidia", "nouveau", "vfio-pci", …), "" for none; `bars` (start, end) of the first six resources;
    `width` and `max_width` in lanes, 0 where the kernel doesn't say; `virtual`: an SR-IOV virtual function, which
    belongs to a virtual machine and isn't a card of this host; `answers`: False when its configuration space reads
    all ones, as that of a card that fell off the bus does, None when it can't be read."""

    address: str
    device: int
    pci_class: str
    driver: str = ""
    bars: tuple[tuple[int, int], ...] = ()
    width: int = 0
    max_width: int = 0
    virtual: bool = False
    answers: bool | None = None

    @property
    def is_card(self) -> bool:
        return self.pci_class in DISPLAY_CLASSES and not self.virtual

    @property
    def is_switch(self) -> bool:
        return self.pci_class == SWITCH_CLASS

    @property
    def text(self) -> str:
        """For people: "0000:41:00.0 [10de:2331]"."""
        return f"{self.address} [10de:{self.device:04x}]"


@dataclass(frozen=True)
class PciProbe(Probe[tuple[PciDevice, ...]]):
    """All NVIDIA (vendor 10de) display devices and NVSwitches on the PCI bus, in the order of their addresses.

    An empty tuple says that the bus was read and holds none; absent that this machine has no PCI bus.
    """

    @property
    def key(self) -> str:
        return "NVIDIA PCI devices"

    def script(self) -> str:
        return r"""
[ -d /sys/bus/pci ] || { [ -d /sys/bus ] || unknown '/sys is not mounted'; absent; }
[ -r /sys/bus/pci/devices ] || unknown '/sys/bus/pci/devices cannot be read'
for d in /sys/bus/pci/devices/*; do
    [ -e "$d" ] || continue
    read -r v <"$d/vendor" || unknown "$d/vendor cannot be read"
    [ "$v" = 0x10de ] || continue
    read -r c <"$d/class" || unknown "$d/class cannot be read"
    case $c in 0x0300* | 0x0302* | 0x0380* | 0x0680*) ;; *) continue ;; esac
    read -r i <"$d/device" || unknown "$d/device cannot be read"
    n=-; [ -L "$d/driver" ] && n=$(readlink "$d/driver") n=${n##*/}
    w=0; { read -r w <"$d/current_link_width"; } 2>/dev/null
    m=0; { read -r m <"$d/max_link_width"; } 2>/dev/null
    f=physical; [ -e "$d/physfn" ] && f=virtual
    set -- $(od -An -tx1 -N 4 "$d/config" 2>/dev/null); a=${1-}${2-}${3-}${4-}
    printf '%s %s %s %s %s %s %s %s' "${d##*/}" "$i" "$c" "$n" "${w:-0}" "${m:-0}" "$f" "${a:--}"
    {
        for b in 1 2 3 4 5 6; do read -r s e r && printf ' %s-%s' "$s" "$e"; done <"$d/resource"
    } 2>/dev/null
    echo
done
"""

    def parse(self, output: Output) -> tuple[PciDevice, ...]:
        return tuple(_device(line.split()) for line in output.text.splitlines() if line.strip())


def _device(words: list[str]) -> PciDevice:
    address, device, pci_class, driver, width, max_width, function, config, *bars = words
    return PciDevice(
        address=address,
        device=int(device, 16),
        pci_class=pci_class.removeprefix("0x")[:4],
        driver="" if driver == "-" else driver,
        bars=tuple((int(start, 16), int(end, 16)) for start, end in (bar.split("-") for bar in bars)),
        width=_lanes(width),
        max_width=_lanes(max_width),
        virtual=function == "virtual",
        answers=None if config == "-" else config != "ffffffff",
    )


def _lanes(text: str) -> int:
    # The kernel says 255 (or "Unknown") for a link that it can't ask.
    return int(text) if text.isdigit() and int(text) <= 32 else 0


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card as the loaded driver lists it below /proc/driver/nvidia/gpus. `minor` is the number N of its
    /dev/nvidiaN, None where the file doesn't say; `firmware` "N/A" without GSP."""

    address: str
    model: str
    uuid: str
    minor: int | None
    firmware: str = ""


@dataclass(frozen=True, slots=True)
class LoadedDriver:
    """What /proc/driver/nvidia says. `version` "580.95.05"; `flavour` "open" or "proprietary"; `params` the
    module's parameters by name."""

    version: str
    flavour: str
    gpus: tuple[Gpu, ...] = ()
    params: tuple[tuple[str, str], ...] = ()


VERSION_LINE = re.compile(r"NVRM version:\s+(?P<what>NVIDIA UNIX .*?)\s+(?P<version>\d{3,}\.\d+(?:\.\d+)?)\s")


@dataclass(frozen=True)
class DriverProcProbe(Probe[LoadedDriver]):
    """/proc/driver/nvidia; absent when no nvidia module is loaded."""

    @property
    def key(self) -> str:
        return "loaded NVIDIA driver"

    def script(self) -> str:
        return r"""
p=/proc/driver/nvidia
[ -e "$p/version" ] || { [ -d /proc/self ] || unknown '/proc is not mounted'; absent; }
sed -n 1p "$p/version" || unknown "$p/version cannot be read"
[ -r "$p/params" ] && sed 's/^/param /' "$p/params"
for g in "$p"/gpus/*; do
    [ -e "$g" ] || continue
    echo "gpu ${g##*/}"
    cat "$g/information" || unknown "$g/information cannot be read"
done
exit 0
"""

    def parse(self, output: Output) -> LoadedDriver:
        lines = output.text.splitlines()
        found = VERSION_LINE.search(f"{lines[0]} ") if lines else None
        if found is None:
            raise ValueError(f"/proc/driver/nvidia/version reads {lines[0] if lines else ''!r}")
        params = [line.removeprefix("param ").split(": ", 1) for line in lines if line.startswith("param ")]
        starts = [number for number, line in enumerate(lines) if line.startswith("gpu ")] + [len(lines)]
        gpus = [_gpu(lines[at:end]) for at, end in pairwise(starts)]
        return LoadedDriver(
            version=found["version"],
            flavour="open" if "Open Kernel Module" in found["what"] else "proprietary",
            gpus=tuple(gpus),
            params=tuple((pair[0], pair[1].strip()) for pair in params if len(pair) == 2),
        )


def _gpu(lines: list[str]) -> Gpu:
    values = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    minor = values.get("Device Minor", "")
    return Gpu(
        address=lines[0].removeprefix("gpu "),
        model=values.get("Model", ""),
        uuid=values.get("GPU UUID", ""),
        minor=int(minor) if minor.isdigit() else None,
        firmware=values.get("GPU Firmware", ""),
    )


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """One device file. `major` and `minor` as `stat` says; `mode` permission bits."""

    path: str
    major: int
    minor: int
    mode: int
    owner: str
    group: str


@dataclass(frozen=True, slots=True)
class DeviceFiles:
    """`files` below /dev named nvidia*; `majors` of /proc/devices by name ("nvidia", "nvidiactl", "nvidia-uvm",
    "nvidia-caps", …); `links` of /dev/char that lead to one of them ("195:0")."""

    files: tuple[DeviceFile, ...] = ()
    majors: tuple[tuple[str, int], ...] = ()
    links: tuple[str, ...] = ()

    def file(self, path: str) -> DeviceFile | None:
        """The device file at that path, if it is there."""
        return next((file for file in self.files if file.path == path), None)

    def major(self, name: str) -> int | None:
        """The major number that the kernel gave to this name, None when no driver has it."""
        return dict(self.majors).get(name)


@dataclass(frozen=True)
class DeviceFilesProbe(Probe[DeviceFiles]):
    """NVIDIA device files and the majors behind them; nothing there is an empty value, not absent."""

    @property
    def key(self) -> str:
        return "NVIDIA device files"

    def script(self) -> str:
        return r"""
[ -r /proc/devices ] || unknown '/proc/devices cannot be read'
awk '/^Block devices:/ {exit} $2 ~ /^nvidia/ {print "major", $1, $2}' /proc/devices
for f in /dev/nvidia* /dev/nvidia-caps/*; do
    [ -c "$f" ] || continue
    stat -c 'file %t %T %a %U %G %n' "$f" || unknown "$f cannot be read"
done
[ -d /dev/char ] || exit 0
# A server has hundreds of such links: not a process for each.
find /dev/char -ignore_readdir_race -maxdepth 1 -lname '*nvidia*' -printf 'link %f\n' \
    || unknown "/dev/char can't be listed"
"""

    def parse(self, output: Output) -> DeviceFiles:
        files, majors, links = [], [], []
        for line in output.text.splitlines():
            kind, *rest = line.split()
            if kind == "major":
                majors.append((rest[1], int(rest[0])))
            elif kind == "file":
                major, minor, mode, owner, group, path = rest
                files.append(DeviceFile(path, int(major, 16), int(minor, 16), int(mode, 8), owner, group))
            elif kind == "link":
                links.append(rest[0])
        return DeviceFiles(tuple(files), tuple(majors), tuple(sorted(links)))
