"""What goes wrong with containerd on a host, and what its people find afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lab import Lab, LabHost
from tests.lab.containerdhosts import (
    BOOK,
    CONFIG,
    RUNTIME,
    ctr_run,
    rootfs,
    script,
    started,
    variables,
    with_toolkit,
)
from tests.lab.criclient import NoAnswer, status
from tests.lab.site import Site, book
from tests.unit.containerd.seen import CASES

OVERRIDE = "/etc/systemd/system/containerd.service.d/override.conf"
PREVIOUS = "/var/lib/provision/previous"
STOCK = (CASES / "debian-stock.toml").read_bytes()
CHANGE = f"containerd/containerd:{CONFIG}"


@pytest.fixture(scope="module")
def old_and_new(lab: Lab) -> list[LabHost]:
    """containerd 1.6 and 2."""
    return with_toolkit(lab, "gpu-u", "gpu-e")


@pytest.fixture
def hosts(old_and_new: list[LabHost], site: Site) -> list[LabHost]:
    """Both with the distribution's own file and a containerd that runs with it."""
    for host in old_and_new:
        host.exec(
            f"umount /etc/containerd 2>/dev/null; rm -rf {OVERRIDE} {CONFIG} /etc/containerd/conf.d /root/trial "
            f"/var/lib/provision/stamps {PREVIOUS} /usr/local/sbin/systemctl; systemctl daemon-reload"
        )
        host.put(CONFIG, STOCK)
        host.exec("systemctl reset-failed containerd; systemctl restart containerd", check=True)
    site.write(*old_and_new, text=variables(), playbook=BOOK)
    return old_and_new


@pytest.fixture
def host(hosts: list[LabHost], site: Site) -> LabHost:
    """One of them, alone in the inventory."""
    site.write(hosts[0], text=variables(), playbook=BOOK)
    return hosts[0]


def start_with(host: LabHost, program: str) -> None:
    """From its next start on, the unit runs this sh program, which may end in the real containerd."""
    host.put("/root/trial", "#!/bin/sh\n" + script(program), 0o755)
    host.put(OVERRIDE, "[Service]\nExecStart=\nExecStart=/root/trial\nRestart=no\n")
    host.exec("systemctl daemon-reload", check=True)


def applied(site: Site, *more: str) -> dict[str, Any]:
    """Host → its part of the JSON document."""
    answer: dict[str, Any] = site.json("apply", "--yes", *more)["hosts"]
    for name, host in answer.items():
        print(name, host["status"], host["message"])  # shown where a test fails
    return answer


def leftovers(host: LabHost) -> str:
    """Candidates and temporary files beside containerd's."""
    return host.exec("ls -A /etc/containerd | grep -v '^config.toml$\\|^conf.d$'").stdout


IF_NVIDIA = f"if grep -q nvidia {CONFIG}; then"


def test_a_containerd_that_exits_gets_its_previous_file_back(host: LabHost, site: Site) -> None:
    start_with(host, f"{IF_NVIDIA} echo 'containerd: no luck' >&2; exit 1; fi\nexec /usr/bin/containerd")
    answer = applied(site)[host.name]
    (change,) = answer["changes"]
    assert (answer["status"], change["id"], change["ok"], change["restored"]) == ("failed", CHANGE, False, "restored")
    assert "no luck" in change["output"], "containerd's own words"
    assert answer["message"] == f"{CHANGE}: containerd.service did not obey (restored)"
    assert host.get(CONFIG) == STOCK
    assert status(host).default == "runc", "CRI is up again"
    assert not leftovers(host)
    assert host.exec(f"ls -A {PREVIOUS}").stdout == "", "nothing that a later way back could bring"
    assert site.json("plan")["hosts"][host.name]["changes"][0]["id"] == CHANGE


def test_a_cri_plugin_that_breaks_is_seen_although_containerd_says_ready(hosts: list[LabHost], site: Site) -> None:
    for host in hosts:
        broken = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd]\ndefault_runtime_name = "gone"\n'
        host.put("/root/broken.toml", broken)
        start_with(host, f"{IF_NVIDIA} exec /usr/bin/containerd -c /root/broken.toml; fi\nexec /usr/bin/containerd")
    done = site.run("apply", "--yes")
    assert done.returncode == 1
    for host in hosts:
        assert "CRI plugin" in done.stdout
        assert "restored" in done.stdout
        assert host.get(CONFIG) == STOCK
        assert status(host).default == "runc"
        assert host.exec("ls /var/lib/provision/stamps/containerd.service").returncode != 0


def test_where_the_way_back_fails_too_both_are_told(host: LabHost, site: Site) -> None:
    start_with(host, "echo 'containerd: never again' >&2; exit 1")
    answer = applied(site)[host.name]
    (change,) = answer["changes"]
    assert change["ok"] is False
    assert "the way back failed too" in change["restored"]
    assert answer["message"] == f"{CHANGE}: containerd.service did not obey ({change['restored']})"
    assert host.get(CONFIG) == STOCK, "the file is the previous one all the same"
    host.exec(f"rm {OVERRIDE}; systemctl daemon-reload", check=True)
    assert applied(site)[host.name]["status"] == "changed", "a unit that failed is mended by the right file"
    assert status(host).default == "nvidia"


def test_a_full_disk_changes_nothing_and_restarts_nothing(host: LabHost, site: Site) -> None:
    host.exec(f"mount -t tmpfs -o size=12k none /etc/containerd && dd if=/dev/zero of={CONFIG}.fill bs=4k count=2")
    host.put(CONFIG, STOCK)
    host.exec("systemctl restart containerd", check=True)
    before = started(host)
    answer = applied(site)[host.name]
    assert answer["status"] == "failed"
    assert "No space left" in answer["changes"][0]["output"]
    assert host.get(CONFIG) == STOCK
    assert started(host) == before
    assert leftovers(host).split() == ["config.toml.fill"]


def test_a_run_that_died_between_writing_and_restarting_is_continued(host: LabHost, site: Site) -> None:
    host.put("/usr/local/sbin/systemctl", "#!/bin/sh\n" + script(KILLS_ITS_PARENTS), 0o755)
    before = started(host)
    assert applied(site)[host.name]["status"] == "failed"
    assert b"nvidia" in host.get(CONFIG)
    assert started(host) == before, "it was killed before the restart"
    host.exec("rm /usr/local/sbin/systemctl", check=True)
    (change,) = site.json("plan")["hosts"][host.name]["changes"]
    assert change["subject"] == "containerd.service"
    assert "configuration changed since it started" in change["summary"]
    assert applied(site)[host.name]["status"] == "changed"
    assert status(host).default == "nvidia"
    assert applied(site)[host.name]["status"] == "ok"


KILLS_ITS_PARENTS = """\
case "$*" in
*restart*containerd*)
    p=$$ all=
    while :; do
        p=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$p/status")
        read -r name <"/proc/$p/comm"
        case $name in sh | timeout) all="$p $all" ;; *) break ;; esac
    done
    kill -9 $all
    exit 1
    ;;
esac
exec /usr/bin/systemctl "$@"
"""


def test_a_running_container_keeps_the_restart_waiting_and_outlives_it(host: LabHost, site: Site) -> None:
    rootfs(host)
    host.exec(ctr_run("worker", "sleep 1000", "--detach").replace(" --rm", ""), check=True)
    try:
        (waiting,) = applied(site)[host.name]["waiting"]
        assert waiting["id"] == CHANGE
        assert "default/worker" in waiting["deferred"]["reason"]
        assert "--disruptive" in waiting["deferred"]["command"]
        assert host.get(CONFIG) == STOCK
        pid = host.exec("ctr tasks ls | awk '$1 == \"worker\" {print $2}'", check=True).stdout
        assert applied(site, "--disruptive")[host.name]["status"] == "changed"
        assert status(host).default == "nvidia"
        assert host.exec('ctr tasks ls | awk \'$1 == "worker" && $3 == "RUNNING" {print $2}\'').stdout == pid
    finally:
        host.exec("ctr tasks kill -s KILL worker; sleep 1; ctr tasks rm -f worker; ctr containers rm worker")


def test_a_link_to_a_file_that_only_root_reads_stays_both(host: LabHost, site: Site) -> None:
    host.put("/srv/site/containerd.toml", STOCK, 0o600)
    host.exec(f"chown 0:50 /srv/site/containerd.toml; ln -sfn /srv/site/containerd.toml {CONFIG}", check=True)
    assert applied(site)[host.name]["status"] == "changed"
    assert host.exec(f"readlink {CONFIG}; stat -c %a-%g /srv/site/containerd.toml").stdout.split() == [
        "/srv/site/containerd.toml",
        "600-50",
    ]
    assert status(host).default == "nvidia"
    assert not leftovers(host)


def test_a_drop_in_that_changes_later_leads_to_a_restart(host: LabHost, site: Site) -> None:
    host.put(CONFIG, b'imports = ["/etc/containerd/conf.d/*.toml"]\n' + STOCK)
    host.put("/etc/containerd/conf.d/debug.toml", 'version = 2\n[debug]\nlevel = "info"\n')
    assert applied(site)[host.name]["status"] == "changed"
    assert applied(site)[host.name]["status"] == "ok"
    host.put("/etc/containerd/conf.d/debug.toml", 'version = 2\n[debug]\nlevel = "warn"\n')
    assert [change["subject"] for change in applied(site)[host.name]["changes"]] == ["containerd.service"]
    host.exec("rm /etc/containerd/conf.d/debug.toml", check=True)
    assert [change["subject"] for change in applied(site)[host.name]["changes"]] == ["containerd.service"]
    assert applied(site)[host.name]["status"] == "ok"


def test_a_containerd_that_somebody_stopped_stays_stopped(host: LabHost, site: Site) -> None:
    host.exec("systemctl mask --now containerd", check=True)
    try:
        answer = applied(site)[host.name]
        assert answer["status"] == "changed"
        assert RUNTIME.encode() in host.get(CONFIG)
        assert host.exec("systemctl is-active containerd").stdout.strip() == "inactive"
        again = applied(site)[host.name]
        assert (again["status"], again["changed"]) == ("ok", 0)
    finally:
        host.exec("systemctl unmask containerd", check=True)


def test_a_cri_plugin_that_is_down_now_is_mended(host: LabHost, site: Site) -> None:
    host.put(CONFIG, (CASES / "half-done.toml").read_bytes())
    host.exec("systemctl restart containerd", check=True)
    with pytest.raises(NoAnswer):
        status(host)
    assert applied(site)[host.name]["status"] == "changed"
    assert status(host).default == "nvidia"


def test_without_ctr_or_crictl_nothing_could_prove_a_restart(host: LabHost, site: Site) -> None:
    host.exec("mv /usr/bin/ctr /usr/bin/ctr.away", check=True)
    try:
        answer = applied(site)[host.name]
        assert answer["status"] == "refused"
        assert "neither ctr nor crictl" in json.dumps(answer)
        assert host.get(CONFIG) == STOCK
    finally:
        host.exec("mv /usr/bin/ctr.away /usr/bin/ctr", check=True)


def test_a_containerd_that_is_missing_is_installed_first(host: LabHost, site: Site) -> None:
    host.exec("DEBIAN_FRONTEND=noninteractive apt-get purge -q -y containerd", check=True)
    package = book('task = "containerd.package"\ninstall = "{{ containerd.install }}"', stage="packages")
    site.write(host, text=variables() + "\ninstall = true", playbook=package + BOOK)
    planned = site.json("plan")["hosts"][host.name]["changes"]
    assert [(change["id"], change["provisional"]) for change in planned] == [
        ("packages/containerd.package:containerd", False),
        (CHANGE, True),
    ]
    answer = applied(site)[host.name]
    assert (answer["status"], answer["changed"]) == ("changed", 2), answer["message"]
    assert status(host).default == "nvidia"
    assert applied(site)[host.name]["status"] == "ok"
