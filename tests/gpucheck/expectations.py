"""What the stand-ins of the tests claim of a host with NVIDIA cards.

Each claim is a command and the form of its answer. The lab's tests check that the stand-ins keep to them; on a host
with a real card ``make gpu-check`` says where the real thing differs. Nothing here loads a module or needs a network;
nvidia-smi run as root makes device files that are missing, as it always does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Expectation:
    """``command`` is sh; ``answer`` matches all that it prints, standard error included, but white space at the ends.
    ``needs`` names a command without which there is nothing to compare."""

    what: str
    command: str
    answer: str
    needs: str = ""

    def holds(self, printed: str) -> bool:
        return re.fullmatch(self.answer, printed.strip(), re.DOTALL) is not None


_VERSION = r"\d{3,}\.\d+(\.\d+)?"
_UUID = r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_BUS = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0"
_NUMBERS = r"\d+(\.\d+)?"
_FIRST = "f=$(ls -d /proc/driver/nvidia/gpus/* | head -n 1); "
_CARDS = "for d in /sys/bus/pci/devices/*; do grep -q 0x10de $d/vendor && grep -q '^0x030' $d/class || continue; "

KERNEL = (
    Expectation(
        "the driver's version in /proc",
        "head -n 1 /proc/driver/nvidia/version",
        rf"NVRM version: +NVIDIA UNIX (Open Kernel Module for x86_64|x86_64 Kernel Module) +{_VERSION} +Release.*",
    ),
    Expectation(
        "the module's parameters in /proc",
        "grep -c '^[A-Za-z0-9]*: ' /proc/driver/nvidia/params",
        r"[1-9]\d*",
    ),
    Expectation(
        "what /proc says of a card",
        _FIRST + "grep -oE '^(Model|IRQ|GPU UUID|Bus Location|Device Minor|GPU Firmware):' $f/information",
        "Model:\nIRQ:\nGPU UUID:\nBus Location:\nDevice Minor:\nGPU Firmware:",
    ),
    Expectation(
        "a card's folder in /proc is named after its bus address",
        _FIRST + "echo ${f##*/}; sed -n 's/^Bus Location:[[:space:]]*//p' $f/information",
        rf"({_BUS})\n\1",
    ),
    Expectation(
        "major numbers",
        "awk '/^Block/ {exit} $2 ~ /^nvidia(ctl|-frontend|-uvm)?$/ {print $1, $2}' /proc/devices | LC_ALL=C sort -k2",
        r"195 nvidia(-frontend)?\n\d+ nvidia-uvm(\n195 nvidiactl)?",
    ),
    Expectation(
        "loaded and installed module say one version",
        "cat /sys/module/nvidia/version; modinfo -F version nvidia",
        rf"({_VERSION})\n\1",
    ),
    Expectation("the module's licence", "modinfo -F license nvidia", r"NVIDIA|Dual MIT/GPL"),
    Expectation(
        "what depends on what",
        "for m in nvidia_uvm nvidia_modeset nvidia_drm; do modinfo -F depends $m | tr ',' '\\n' | grep nvidia; done",
        r"nvidia\nnvidia\nnvidia[-_]modeset",
    ),
    Expectation(
        "the module's PCI aliases: display controllers",
        "modinfo -F alias nvidia | grep '^pci:v000010DE' | LC_ALL=C sort",
        r"pci:v000010DEd\*sv\*sd\*bc03sc00i00\*\n.*pci:v000010DEd\*sv\*sd\*bc03sc02i00\*.*",
    ),
    Expectation(
        "cards on the bus are bound to the driver",
        _CARDS + "basename $(readlink $d/driver); done | sort -u",
        "nvidia",
    ),
    Expectation(
        "a card answers from its configuration space",
        _CARDS + "head -c 2 $d/config | od -An -tx1; done | sort -u",
        "de 10",
    ),
)

DEVICES = (
    Expectation(
        "device files",
        "stat -c '%n %t:%T %a' /dev/nvidiactl /dev/nvidia0",
        r"/dev/nvidiactl c3:ff 666\n/dev/nvidia0 c3:0 666",
    ),
    Expectation(
        "the device files of nvidia-uvm carry its major number",
        "stat -c '%n %t %T' /dev/nvidia-uvm /dev/nvidia-uvm-tools; "
        "printf '%x\\n' $(awk '$2 == \"nvidia-uvm\" {print $1}' /proc/devices)",
        r"/dev/nvidia-uvm ([0-9a-f]+) 0\n/dev/nvidia-uvm-tools \1 1\n\1",
    ),
)

USERLAND = (
    Expectation("list of cards", "nvidia-smi -L", rf"GPU 0: NVIDIA [^\n]+ \(UUID: {_UUID}\).*", "nvidia-smi"),
    Expectation(
        "a query by field",
        "nvidia-smi --query-gpu=index,pci.bus_id,memory.total,mig.mode.current --format=csv,noheader,nounits -i 0",
        r"0, 0000[0-9A-F]{4}:[0-9A-F]{2}:[0-9A-F]{2}\.0, \d+, (\[N/A\]|Disabled|Enabled)",
        "nvidia-smi",
    ),
    Expectation(
        "units in a query",
        "nvidia-smi --query-gpu=memory.used,power.draw --format=csv,noheader -i 0",
        rf"\d+ MiB, ({_NUMBERS} W|\[N/A\])",
        "nvidia-smi",
    ),
    Expectation(
        "an unknown field",
        "nvidia-smi --query-gpu=no_such --format=csv; echo $?",
        r'Field "no_such" is not a valid field to query\.\n\n2',
        "nvidia-smi",
    ),
    Expectation("a card that isn't there", "nvidia-smi -i 99 -L; echo $?", r"No devices were found\n6", "nvidia-smi"),
    Expectation(
        "libraries are links to files named after the version",
        "for l in libcuda libnvidia-ml; do "
        'basename $(readlink -f $(ldconfig -p | sed -n "s/.*$l.so.1 .*x86-64.*=> //p")); done',
        rf"libcuda\.so\.({_VERSION})\nlibnvidia-ml\.so\.\1",
    ),
    Expectation("cuInit", "python3 -c 'import ctypes; print(ctypes.CDLL(\"libcuda.so.1\").cuInit(0))'", "0", "python3"),
    Expectation(
        "the persistence daemon runs", "systemctl is-active nvidia-persistenced", "active", "nvidia-persistenced"
    ),
    Expectation(
        "the toolkit's version",
        "nvidia-ctk --version | head -n 1",
        r"NVIDIA Container Toolkit CLI version \d+\.\d+\.\d+.*",
        "nvidia-ctk",
    ),
    Expectation(
        "a generated CDI specification",
        "nvidia-ctk cdi generate --format=yaml 2>/dev/null | grep -E '^(cdiVersion|kind):'",
        r"cdiVersion: \S+\nkind: nvidia\.com/gpu",
        "nvidia-ctk",
    ),
)

ALL = (*KERNEL, *DEVICES, *USERLAND)
