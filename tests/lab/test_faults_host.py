"""Hosts on which work fails: full and read-only disks, an unknown system, broken packages and repositories."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab import Lab, LabHost
from tests.lab.site import GPU_NODE, Site, book

OLD = "the old content\n"


@pytest.fixture(scope="module")
def spare(lab: Lab) -> LabHost:
    """One host for the whole file; tests that break it for others mend it again."""
    lab.reset("gpu-z")
    return lab.host("gpu-z")


def applied(site: Site) -> dict[str, Any]:
    """What an apply reports of the host, which must have ended as the exit code says."""
    answer = site.json("apply", "--yes")
    assert answer["exit_code"] == 1
    host: dict[str, Any] = answer["hosts"]["gpu-z"]
    return host


def test_a_disk_that_is_full_in_the_middle_of_a_write(spare: LabHost, site: Site) -> None:
    spare.exec("mkdir -p /root/small && mount -t tmpfs -o size=64k tmpfs /root/small", check=True)
    spare.put("/root/small/config", OLD, 0o640)
    spare.exec("dd if=/dev/zero of=/root/small/filling bs=4k count=14 2>/dev/null", check=True)
    site.write(
        spare,
        playbook=book(
            f'task = "file"\npath = "/root/small/config"\ncontent = "{"x" * 30_000}"',
            'task = "file"\nlabel = "after"\npath = "/root/after-full"\ncontent = ""',
        ),
    )
    host = applied(site)
    assert (host["status"], host["changed"], host["failed"]) == ("failed", 0, 1)
    assert "/root/small/config" in host["message"]
    assert "it is as it was" in host["message"]
    assert "No space left on device" in host["changes"][0]["output"], "why"
    assert spare.get("/root/small/config").decode() == OLD
    assert spare.exec("ls -A /root/small").stdout.split() == ["config", "filling"], "nothing is left behind"
    assert spare.exec("test -e /root/after-full").returncode == 1, "the first failure ends the stage"
    spare.exec("rm /root/small/filling", check=True)
    assert site.json("apply", "--yes")["hosts"]["gpu-z"]["changed"] == 2
    assert spare.exec("stat -c %a /root/small/config").stdout.strip() == "640"


def test_a_file_system_that_is_read_only(spare: LabHost, site: Site) -> None:
    spare.exec("mkdir -p /root/ro && mount -t tmpfs tmpfs /root/ro && echo old >/root/ro/config", check=True)
    spare.exec("mount -o remount,ro /root/ro", check=True)
    site.write(
        spare,
        playbook=book(
            'task = "file"\nlabel = "old"\npath = "/root/ro/config"\ncontent = "new"',
        ),
    )
    host = applied(site)
    assert host["status"] == "failed"
    assert "Read-only file system" in host["changes"][0]["output"]
    assert "can't write in /root/ro" in host["message"]
    assert spare.get("/root/ro/config") == b"old\n"


def test_nothing_can_be_written_at_all(spare: LabHost, site: Site) -> None:
    spare.exec("mkdir -p /run/provision && mount -t tmpfs -o ro tmpfs /run/provision", check=True)
    site.write(spare, playbook=book('task = "file"\npath = "/root/x"\ncontent = "new"'))
    host = applied(site)
    spare.exec("umount /run/provision", check=True)
    assert host["status"] == "failed"
    assert "/run/provision" in host["message"]
    assert "Read-only" in host["message"]
    assert spare.exec("test -e /root/x").returncode == 1


def test_an_unknown_distribution(spare: LabHost, site: Site) -> None:
    spare.exec("cp -L /etc/os-release /root/os-release && rm /etc/os-release", check=True)
    spare.put("/etc/os-release", 'ID=plan9\nVERSION_ID="4"\nPRETTY_NAME="Plan 9"\n')
    site.write(spare, text=GPU_NODE)
    spare.clear_sshd_log()
    host = applied(site)
    spare.exec("cp /root/os-release /etc/os-release", check=True)
    assert (host["status"], host["changed"]) == ("refused", 0)
    refusal = host["refusals"][0]
    assert "plan9" in refusal["what"] + refusal["why"]
    assert refusal["remedy"]
    assert spare.executions() == 1, "looked at, and not touched"


def test_a_dpkg_that_was_interrupted(spare: LabHost, site: Site) -> None:
    spare.exec("sed -i '/^Package: tree$/,/^$/d' /var/lib/dpkg/status && cp /var/lib/dpkg/status /root/status")
    spare.exec(
        "printf 'Package: half\\nStatus: install ok half-configured\\nVersion: 1\\nArchitecture: all\\n"
        "Maintainer: x\\nDescription: x\\n\\n' >>/var/lib/dpkg/status",
        check=True,
    )
    site.write(spare, playbook=book('task = "packages"\nnames = ["tree"]'))
    host = applied(site)
    spare.exec("cp /root/status /var/lib/dpkg/status", check=True)
    assert (host["status"], host["changed"]) == ("refused", 0)
    refusal = host["refusals"][0]
    assert "half" in refusal["what"] + refusal["why"]
    assert "dpkg --configure -a" in refusal["remedy"]
    assert "tree" not in spare.packages()


def test_a_package_version_that_no_repository_has(spare: LabHost, site: Site) -> None:
    site.write(spare, playbook=book('task = "packages"\nnames = ["tree=9.9-9"]'))
    host = applied(site)
    assert host["status"] == "failed"
    output = host["changes"][0]["output"]
    there = spare.exec("apt-cache madison tree | cut -d'|' -f2").stdout.split()[0]
    assert f"tree 9.9-9 is not in the repositories of this host; they have: {there}" in output
    assert "tree" not in spare.packages()


def locking(site: Site, spare: LabHost, old: str, new: str) -> dict[str, Any]:
    """The error of `lock` with one thing in the inventory wrong."""
    assert old in GPU_NODE
    site.write(spare, text=GPU_NODE.replace(old, new))
    answer = site.json("lock")
    assert answer["exit_code"] == 1, answer
    assert not (site.folder / "site.lock").exists()
    error: dict[str, Any] = answer["error"]
    assert error["remedy"], error
    return error


def test_a_driver_version_that_no_repository_has(spare: LabHost, site: Site) -> None:
    error = locking(site, spare, "580.95.05", "580.11.11")
    assert "not in the repositories" in error["what"]
    assert "580.11.11" in error["why"]
    assert all(version in error["why"] for version in ("580.95.05", "570.172.08", "570.158.01")), "which there are"


def test_a_repository_that_somebody_else_signed(spare: LabHost, site: Site) -> None:
    error = locking(site, spare, "/srv/lab-repo/nvidia", "/srv/lab-repo/nvidia-strange-key")
    assert "gpu-z couldn't find the packages" in error["what"]
    assert "nvidia-strange-key" in error["why"]
    assert "NO_PUBKEY" in error["why"]
    assert "key" in error["remedy"]


def test_a_key_with_another_fingerprint(spare: LabHost, site: Site) -> None:
    site.write(spare, text=GPU_NODE.replace("8B9701ED", "00000000"))
    spare.clear_sshd_log()
    answer = site.json("apply", "--yes")
    assert answer["exit_code"] == 1
    host = answer.get("hosts", {}).get("gpu-z", {})
    told = str(answer.get("error") or host["refusals"])
    assert "8B9701EDB92A647E5E0FFB006150B7BB7B610A27" in told, "the key's own"
    assert "00000000B92A647E5E0FFB006150B7BB7B610A27" in told, "the wanted one"
    assert spare.exec("ls /etc/apt/keyrings /etc/apt/sources.list.d | grep provision").stdout == ""
