"""What would disturb work waits, one host goes first, and a restart happens only where it may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab import Lab, LabHost
from tests.lab.site import Site, book

QUIET = 'task = "file"\npath = "/root/quiet"\ncontent = "x"'
SERVICE = """
task = "command"
summary = "restart it"
run = "touch /root/restarted"
creates = "/root/restarted"
disruption = "service"
disrupts = "restarts containerd"
"""
ROOT_FILES = (
    "cd /root; mkdir -p fs/bin; cp -n /bin/sh /bin/sleep fs/bin/;"
    "for l in $(ldd /bin/sh /bin/sleep | grep -o '/[^ :]*' | grep '\\.so' | sort -u); do"
    "  mkdir -p fs$(dirname $l); cp -nL $l fs$l; done"
)
REBOOT = '''
"""A restart of the host, once."""
from provisioner.api import Change, Disruption, FileProbe, Kind, Reboot, Task, WriteFile, task


@task("acme.restart-once")
class RestartOnce(Task):
    """Restart the host unless a file says that it was done."""

    mark: str

    def probes(self, ctx):
        yield FileProbe(self.mark)

    def plan(self, facts, ctx):
        if facts.get(FileProbe(self.mark)) is None:
            yield Change(
                subject=self.mark,
                summary="restart",
                kind=Kind.RUN,
                actions=(WriteFile(self.mark, "done\\n"), Reboot("try it")),
                disruption=Disruption.REBOOT,
                disrupts="restarts the host",
            )
'''
RESTART = book('task = "acme.restart-once"\nmark = "/root/restarted"', stage="restart") + book(
    'task = "file"\npath = "/root/after"\ncontent = "x"', stage="after"
)


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> tuple[LabHost, LabHost]:
    lab.reset("gpu-x", "gpu-z")
    return lab.host("gpu-x"), lab.host("gpu-z")


@pytest.fixture
def idle(hosts: tuple[LabHost, LabHost]) -> LabHost:
    """A host without workload and without traces of another test."""
    hosts[0].exec("rm -f /root/quiet /root/restarted /root/after", check=True)
    return hosts[0]


@pytest.fixture
def training(idle: LabHost) -> Iterator[LabHost]:
    """The same with a container that runs."""
    idle.exec(f"{ROOT_FILES}; ctr -n jobs run -d --rootfs /root/fs train /bin/sleep 1000", check=True)
    yield idle
    idle.exec("ctr -n jobs task rm -f train; ctr -n jobs container rm train")


def test_a_running_container_makes_disturbing_changes_wait(training: LabHost, site: Site) -> None:
    site.write(training, playbook=book(QUIET, SERVICE))
    answer = site.json("apply", "--yes")
    host = answer["hosts"]["gpu-x"]
    assert (answer["exit_code"], host["status"], host["changed"], host["deferred"]) == (0, "changed", 1, 1)
    assert training.get("/root/quiet") == b"x", "what disturbs nothing was done"
    assert training.exec("test -e /root/restarted").returncode == 1
    (waiting,) = host["waiting"]
    assert "restarts containerd" in waiting["deferred"]["reason"]
    assert "1 container (jobs/train)" in waiting["deferred"]["reason"]
    assert waiting["deferred"]["command"] == f"provision apply {site.inventory} --limit gpu-x --disruptive"
    assert site.run("plan", "--detailed-exitcode").returncode == 2
    text = site.run("apply", "--yes")
    assert text.returncode == 0
    assert waiting["deferred"]["command"] in text.stdout, "the recap names the command"
    assert training.exec("ctr -n jobs task ls | grep -c RUNNING").stdout.strip() == "1"
    consented = site.json("apply", "--yes", "--disruptive")["hosts"]["gpu-x"]
    assert (consented["status"], consented["changed"], consented["deferred"]) == ("changed", 1, 0)
    assert site.run("plan", "--detailed-exitcode").returncode == 0


def test_a_process_that_holds_a_card_does_too(idle: LabHost, site: Site) -> None:
    idle.exec("touch /dev/nvidia0; systemd-run -q --unit=holder sh -c 'exec sleep 999 </dev/nvidia0'", check=True)
    site.write(idle, playbook=book(SERVICE))
    host = site.json("apply", "--yes")["hosts"]["gpu-x"]
    idle.exec("systemctl stop holder; rm /dev/nvidia0", check=True)
    assert (host["status"], host["deferred"]) == ("ok", 1)
    reason = host["waiting"][0]["deferred"]["reason"]
    assert re.search(r"1 GPU process \(\d+ sleep\)", reason), reason
    assert site.json("apply", "--yes")["hosts"]["gpu-x"]["changed"] == 1, "once it has ended"


def test_what_requires_a_deferred_change_waits_with_it(training: LabHost, site: Site) -> None:
    training.exec("mkdir -p /etc/containerd && touch /root/conf", check=True)
    training.put("/etc/systemd/system/it.service", "[Service]\nExecStart=/bin/sleep 999\n")
    training.exec("systemctl daemon-reload; systemctl start it", check=True)
    training.put("/root/conf", "new")
    site.write(training, playbook=book('task = "service"\nunit = "it.service"\nrestart_on = ["/root/conf"]'))
    host = site.json("apply", "--yes")["hosts"]["gpu-x"]
    assert (host["status"], host["changed"], host["deferred"]) == ("ok", 0, 1), host
    assert "it.service" in str(host["waiting"][0])


@pytest.fixture
def pair(hosts: tuple[LabHost, LabHost], site: Site) -> Site:
    """Two idle hosts on which the same disturbing change fails."""
    for host in hosts:
        host.exec("rm -f /root/quiet /root/restarted /root/tried", check=True)
    failing = SERVICE.replace("touch /root/restarted", "touch /root/tried; echo it does not start >&2; exit 4")
    site.write(*hosts, playbook=book(QUIET, stage="quiet") + book(failing, stage="disturbing"))
    return site


def tried(hosts: tuple[LabHost, LabHost]) -> list[str]:
    return [host.name for host in hosts if host.exec("test -e /root/tried").returncode == 0]


def test_a_disturbing_stage_stops_at_the_first_host_that_fails(pair: Site, hosts: tuple[LabHost, LabHost]) -> None:
    answer = pair.json("apply", "--yes")
    assert answer["exit_code"] == 1
    first, second = answer["hosts"]["gpu-x"], answer["hosts"]["gpu-z"]
    assert (first["status"], second["status"]) == ("failed", "stopped")
    assert (first["changed"], second["changed"]) == (1, 1), "the undisturbing stage was done on both"
    assert "it does not start" in first["message"]
    assert "disturbing" in second["message"]
    assert "gpu-x" in second["message"], "because of whom"
    assert tried(hosts) == ["gpu-x"]
    text = pair.run("apply", "--yes", "--limit", "failed@last")
    assert "1 failed, 1 stopped of 2 hosts" in text.stdout, "both are to be done again"


def test_more_failures_can_be_allowed(pair: Site, hosts: tuple[LabHost, LabHost]) -> None:
    answer = pair.json("apply", "--yes", "--max-failures", "1")
    assert answer["exit_code"] == 1
    assert [host["status"] for host in answer["hosts"].values()] == ["failed", "failed"]
    assert tried(hosts) == ["gpu-x", "gpu-z"]


@pytest.fixture
def restarting(idle: LabHost, site: Site) -> Site:
    (site.folder / "tasks").mkdir()
    (site.folder / "tasks" / "restart.py").write_text(REBOOT)
    site.write(idle, playbook=RESTART)
    return site


def boot(host: LabHost) -> str:
    return host.exec("cut -d' ' -f22 /proc/1/stat").stdout


def test_an_active_kubelet_forbids_a_restart(restarting: Site, idle: LabHost) -> None:
    idle.put("/run/systemd/system/kubelet.service", "[Service]\nExecStart=/bin/sleep 1000\n")
    idle.exec("systemctl daemon-reload && systemctl start kubelet", check=True)
    before = boot(idle)
    host = restarting.json("apply", "--yes", "--reboot", "--disruptive")["hosts"]["gpu-x"]
    idle.exec("systemctl stop kubelet", check=True)
    assert (host["status"], host["deferred"], host["reboot_pending"]) == ("changed", 1, True)
    assert "kubelet is active" in host["waiting"][0]["deferred"]["reason"]
    assert host["waiting"][0]["deferred"]["command"].startswith("provision upgrade-driver")
    assert boot(idle) == before


def test_a_restart_needs_consent_and_then_the_run_goes_on(restarting: Site, idle: LabHost) -> None:
    before = boot(idle)
    waiting: dict[str, Any] = restarting.json("apply", "--yes")["hosts"]["gpu-x"]
    assert (waiting["status"], waiting["deferred"], waiting["reboot_pending"]) == ("changed", 1, True)
    assert waiting["waiting"][0]["deferred"]["command"].endswith("--reboot")
    assert boot(idle) == before
    idle.exec("rm /root/after", check=True)
    host = restarting.json("apply", "--yes", "--reboot")["hosts"]["gpu-x"]
    assert (host["status"], host["changed"], host["deferred"]) == ("changed", 2, 0), host["message"]
    assert boot(idle) != before
    assert idle.get("/root/after") == b"x", "the stage after the restart was done"
    assert host["connections"] >= 2, "the old one ended with the boot"
    assert restarting.json("plan")["hosts"]["gpu-x"]["status"] == "ok"
