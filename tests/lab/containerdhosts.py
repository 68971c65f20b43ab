"""What the tests of containerd do to their three hosts: containerd 1.6, 1.7 and 2."""

from __future__ import annotations

import textwrap
from concurrent.futures import ThreadPoolExecutor

from tests.lab import Lab, LabHost
from tests.lab.criclient import Status, status
from tests.lab.site import book

CONFIG = "/etc/containerd/config.toml"
RUNTIME = "/usr/bin/nvidia-container-runtime"
TRIO = ("gpu-u", "gpu-v", "gpu-e")
RELEASES = {"gpu-u": "1.6.20", "gpu-v": "1.7.24", "gpu-e": "2.1.9"}
"""Stand-ins for the version that a host really has, where a test looks into a table of known results."""
TASK = 'task = "containerd"'
BOOK = book(TASK, stage="containerd")
ROOTFS = "/root/rootfs"


def variables(mode: str = "default") -> str:
    """The part of the inventory that is about containerd; the hosts have no kubelet to tell its cgroup driver."""
    return f'[containerd]\ncgroup_driver = "systemd"\nmode = "{mode}"'


def with_toolkit(lab: Lab, *names: str) -> list[LabHost]:
    """Bare hosts with the toolkit's packages from the lab's repository; the driver's aren't there."""
    lab.reset(*names)
    hosts = [lab.host(name) for name in names]
    pool = "/srv/lab-repo/nvidia/pool/main"
    command = f"dpkg -i {pool}/*nvidia-container*_1.18.0-1_*.deb"
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda host: host.exec(command, check=True), hosts))
    return hosts


def line(found: Status) -> str:
    """CRI's own answer in the words of tests/unit/containerd/seen.py; what isn't set is false."""
    words = [f"default={found.default}"]
    for name in sorted(found.handlers):
        handler = found.handlers[name]
        cgroup = False if handler.systemd_cgroup is None else handler.systemd_cgroup
        binary = (handler.binary or "-").replace(RUNTIME, "NCR")
        words.append(f"{name}[{handler.runtime_type.removeprefix('io.containerd.')} sd={cgroup} {binary}]")
    return " ".join(words)


def statuses(hosts: list[LabHost]) -> dict[str, str]:
    """Host → what its CRI says, as `line`."""
    with ThreadPoolExecutor(3) as threads:
        return dict(
            zip((host.name for host in hosts), threads.map(lambda host: line(status(host)), hosts), strict=True)
        )


def started(host: LabHost) -> str:
    """When containerd's process started; another text after each restart."""
    show = "systemctl show -p ExecMainStartTimestampMonotonic -p NRestarts containerd.service"
    return host.exec(show, check=True).stdout


def rootfs(host: LabHost) -> None:
    """A root for containers that has the host's own programs, read-only, by bind mounts."""
    host.exec(
        f"mkdir -p {ROOTFS}/usr {ROOTFS}/proc {ROOTFS}/dev {ROOTFS}/sys {ROOTFS}/tmp {ROOTFS}/etc {ROOTFS}/run\n"
        f"for d in bin lib lib64; do ln -sfn usr/$d {ROOTFS}/$d; done",
        check=True,
    )


def ctr_run(name: str, command: str, *options: str) -> str:
    """The command line of a container that runs an sh command in that root with the nvidia runtime."""
    words = ["ctr run --rm --runtime io.containerd.runc.v2", f"--runc-binary {RUNTIME}"]
    words += ["--mount type=bind,src=/usr,dst=/usr,options=rbind:ro", *options]
    return " ".join([*words, f"--rootfs {ROOTFS} {name} /bin/sh -c '{command}'"])


def script(text: str) -> str:
    """A program for `LabHost.put`, from an indented text."""
    return textwrap.dedent(text).lstrip("\n")
