"""Debian's own driver packages on a node: 95 MB a version, compiled by dkms while the node is cordoned; and an API
that is away for a whole minute meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from provisioner.model.upgrade import Phase
from tests.lab import Lab, LabHost
from tests.lab.site import book
from tests.roll.scene import ACCOUNT, OPTIONS, Scene, loaded

TOP = "nvidia-smi"
BOOK = book('task = "repositories"', 'task = "pin"', 'task = "driver"')
REPOSITORY = """\
[repositories.{0}]
uri = "file:/srv/lab-repo/{1}"
suite = "debian12"
components = ["main"]
key_file = "repo.asc"
key_fingerprint = "8B9701EDB92A647E5E0FFB006150B7BB7B610A27"
"""
# The real one can't speak to a card that isn't there; everything else that looks at the driver sees the real packages.
SMI = """\
#!/bin/sh
for i in /proc/driver/nvidia/gpus/*; do
    [ -e "$i" ] || { echo 'No devices were found'; exit 6; }
    case $* in
    -L) echo "GPU 0: NVIDIA H100 PCIe (UUID: GPU-${i##*/})" ;;
    *driver_version*) cat /sys/module/nvidia/version ;;
    esac
done
"""


def inventory(version: str, cluster: str) -> str:
    return (
        f'[cluster]\nkubeconfig = "{cluster}"\n[versions]\ndriver = "{version}"\nflavour = "proprietary"\n'
        'toolkit = "1.18.0"\n[driver]\nsource = "debian"\n[gpu]\ncards = 2\n'
        '[upgrade]\nsmoke_command = ["nvidia-smi", "-L"]\n'
        + REPOSITORY.format("real", "debian-real")
        + REPOSITORY.format("nvidia", "nvidia")
    )


def installed(host: LabHost) -> str:
    """Upstream version of Debian's packages, where they are whole."""
    said = host.exec(f"dpkg-query -W -f '${{db:Status-Status}} ${{Version}}' {TOP}").stdout.split()
    return said[1].split("-")[0] if said[:1] == ["installed"] else ""


def test_a_node_with_debians_own_driver_and_an_api_that_is_away_for_a_minute(
    lab: Lab, bare: Callable[[dict[str, LabHost]], Scene]
) -> None:
    lab.up("gpu-d")
    host = lab.host("gpu-d")
    listed = host.exec(f"grep -h -A8 '^Package: {TOP}$' /srv/lab-repo/debian-real/dists/*/main/*/Packages").stdout
    versions = sorted({line.split()[1].split("-")[0] for line in listed.splitlines() if line.startswith("Version:")})
    if len(versions) < 2:
        pytest.skip(f"the lab's mirror has Debian's real driver in {versions or 'no version'} only")
    made = bare({"gpu-d": host})
    where = str(made.kubectl.config(ACCOUNT))
    if loaded(host) not in versions or installed(host) != loaded(host):
        host.reset()
        made.site.write(host, text=inventory(versions[0], where), playbook=BOOK)
        for verb in (("lock",), ("apply", "--yes", "--disruptive")):
            done = made.site.run(*verb)
            assert done.returncode == 0, done.stdout + done.stderr
        host.exec("modprobe nvidia; modprobe nvidia_uvm; modprobe nvidia_modeset", check=True)
    host.put("/usr/local/bin/nvidia-smi", SMI, mode=0o755)
    source = loaded(host)
    target = next(version for version in versions if version != source)
    made.join("gpu-d")
    made.furnish()
    made.cluster.add_replicaset("train", 1, gpus=1)
    made.site.write(host, text=inventory(target, where), playbook=BOOK)
    locked = made.site.run("lock")
    assert locked.returncode == 0, locked.stdout + locked.stderr

    # Compiling takes about as long as the API is away; the lease runs out meanwhile, and is ours all the same.
    away = {("phase-started", "installing"): lambda: made.cluster.fail_for(62.0)}
    report = made.roll(replace(OPTIONS, reboot="never"), during=away)
    record = report.nodes["gpu-d"]
    assert record.phase is Phase.DONE, record
    assert (record.source, record.target) == (source, target)
    assert (loaded(host), installed(host)) == (target, target)
    assert host.exec("dpkg --audit").stdout == ""
    assert f"nvidia-current/{target}, " in host.exec("dkms status").stdout, "its module was compiled here"
    assert not made.cordoned("gpu-d")
    made.check_deletions()
