"""A stand-in kubelet, and a note of what was there in this boot when containerd and it first started."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.vm.machine import Machine

#: What containers need of a host with two cards.
DEVICES = {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}

_FOLDER = "/run/witness"
_PROGRAM = "/usr/local/bin/vm-witness"
_SCRIPT = f"""\
#!/bin/sh
# vm-witness NAME: only the first start of a boot counts, /run is empty again after a reboot.
[ ! -e {_FOLDER}/$1 ] || exit 0
mkdir -p {_FOLDER}
{{
    cut -d' ' -f1 /proc/uptime
    cat /proc/sys/kernel/random/boot_id
    find /dev -maxdepth 1 -type c -name 'nvidia*' | sort | tr '\\n' ' '
    echo
    cat /var/lib/provision/selftest.json 2>/dev/null || :
}} >{_FOLDER}/.$1 && mv {_FOLDER}/.$1 {_FOLDER}/$1
"""
#: Ordering and restarts as in kubeadm's package.
_KUBELET = f"""\
[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target containerd.service
[Service]
ExecStartPre={_PROGRAM} kubelet
ExecStart=/bin/sleep infinity
Restart=always
StartLimitInterval=0
RestartSec=10
[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class Seen:
    """What a unit found at its first start in this boot. ``uptime`` in seconds; ``verdict``: the self-test's, None
    where it had none of this boot."""

    uptime: float
    devices: tuple[str, ...]
    verdict: dict[str, Any] | None


def install(machine: Machine) -> None:
    """Lay both down for the boots to come; a kubelet that runs now would keep the product from rebooting."""
    machine.put(_PROGRAM, _SCRIPT, 0o755)
    machine.put("/etc/systemd/system/kubelet.service", _KUBELET)
    drop_in = f"[Service]\nExecStartPre={_PROGRAM} containerd\n"
    machine.put("/etc/systemd/system/containerd.service.d/vm-witness.conf", drop_in)
    machine.exec("systemctl enable kubelet.service", check=True)


def remove(machine: Machine) -> None:
    """Take both away again; containerd goes on."""
    machine.exec(
        f"systemctl disable -q --now kubelet.service; rm -rf {_FOLDER} {_PROGRAM} /etc/systemd/system/kubelet.service "
        "/etc/systemd/system/containerd.service.d/vm-witness.conf && systemctl daemon-reload",
        check=True,
    )


def seen(machine: Machine, unit: str) -> Seen:
    """What ``unit`` ("containerd", "kubelet") found; ``FileNotFoundError`` where it hasn't started in this boot."""
    uptime, boot, devices, *rest = machine.get(f"{_FOLDER}/{unit}").decode().split("\n", 3)
    text = "".join(rest)
    verdict: dict[str, Any] | None = json.loads(text) if text.strip() else None
    if verdict is not None and verdict["boot_id"] != boot:
        verdict = None
    return Seen(float(uptime), tuple(devices.split()), verdict)


def card_drivers(machine: Machine) -> list[str]:
    """The kernel's driver of each card on the bus, "" for none."""
    script = """\
for card in /sys/bus/pci/devices/*; do
    [ "$(cat $card/vendor)" = 0x10de ] && basename "$(readlink $card/driver || echo -)"
done"""
    return machine.exec(script).stdout.replace("-", "").split("\n")[:-1]


def loaded(machine: Machine, *names: str) -> dict[str, bool]:
    """Which of these modules the kernel has."""
    return {name: machine.exec(f"test -d /sys/module/{name}").returncode == 0 for name in names}
