"""The main job: bare hosts become GPU nodes, and a second run changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gpucheck.expectations import ALL as CLAIMS
from tests.gpucheck.expectations import Expectation
from tests.lab import Lab
from tests.lab.site import PROVISION, REPO

INVENTORY = REPO / "inventories/lab.toml"
NAMES = ("gpu-a", "gpu-b", "gpu-c")


def provision(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROVISION, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False
    )


def applied(*more: str) -> dict[str, Any]:
    done = provision("apply", str(INVENTORY), "--yes", "--json", *more)
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == document["exit_code"]
    return document


@pytest.fixture(scope="module")
def first(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the first apply on three bare hosts reports."""
    state = tmp_path_factory.mktemp("state")
    before = os.environ.get("PROVISION_STATE_DIR")
    os.environ["PROVISION_STATE_DIR"] = str(state)
    lab.reset(*NAMES)
    for name in NAMES:
        lab.host(name).clear_sshd_log()
    yield applied()
    if before is None:
        del os.environ["PROVISION_STATE_DIR"]
    else:
        os.environ["PROVISION_STATE_DIR"] = before


def test_the_first_run_makes_gpu_nodes(first: dict[str, Any]) -> None:
    assert first["exit_code"] == 0, first
    assert {name: host["status"] for name, host in first["hosts"].items()} == dict.fromkeys(NAMES, "changed")
    assert all(host["connections"] == 1 for host in first["hosts"].values())


def test_a_run_with_changes_costs_two_executions_for_each_stage_that_has_any(first: dict[str, Any], lab: Lab) -> None:
    for name, host in first["hosts"].items():
        stages = {change["id"].partition("/")[0] for change in host["changes"]}
        assert host["execs"] <= 1 + 2 * len(stages)
        assert lab.host(name).executions() == host["execs"], "our own count is what sshd saw"
        assert lab.host(name).connections() == 1


@pytest.mark.usefixtures("first")
def test_the_second_run_changes_nothing_with_one_connection_and_one_execution(lab: Lab) -> None:
    for name in NAMES:
        lab.host(name).clear_sshd_log()
    again = applied()
    for name, host in again["hosts"].items():
        assert (host["status"], host["changed"], host["deferred"]) == ("ok", 0, 0), host
        assert (host["connections"], host["execs"]) == (1, 1)
        assert (lab.host(name).connections(), lab.host(name).executions()) == (1, 1), "counted by sshd"


@pytest.mark.usefixtures("first")
def test_nothing_is_left_to_plan() -> None:
    done = provision("plan", str(INVENTORY), "--detailed-exitcode")
    assert done.returncode == 0, done.stdout


@pytest.mark.usefixtures("first")
def test_the_lock_fits_what_the_repository_has() -> None:
    assert provision("lock", str(INVENTORY), "--check").returncode == 0


@pytest.mark.usefixtures("first")
def test_the_hosts_do_not_differ() -> None:
    done = provision("drift", str(INVENTORY))
    assert done.returncode == 0, done.stdout


@pytest.mark.usefixtures("first")
def test_the_facts_prove_each_layer() -> None:
    hosts = json.loads(provision("facts", str(INVENTORY), "--json").stdout)["hosts"]
    assert set(hosts) == set(NAMES)
    for facts in hosts.values():
        assert set(facts["modules"]["loaded"].values()) == {"580.95.05"}
        assert facts["driver"]["installed"] == "580.95.05"
        assert facts["toolkit"]["installed"] == "1.18.0"
        assert len(facts["cards"]) == 2
        assert facts["containerd"]["default_runtime"] == "nvidia"
        assert {"nvidia", "runc"} <= set(facts["containerd"]["handlers"])
        assert facts["self_test"]["result"] == "pass"


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.what)
def test_the_stand_ins_keep_to_what_they_claim_of_a_card(claim: Expectation, lab: Lab) -> None:
    """The same claims that `make gpu-check` compares with a real card."""
    for name in NAMES:
        done = lab.host(name).exec(claim.command)
        assert claim.holds(done.stdout + done.stderr), f"{name}: {done.stdout}{done.stderr}"


@pytest.mark.usefixtures("first")
def test_what_a_person_had_set_up_is_still_there(lab: Lab) -> None:
    prepared = lab.host("gpu-c")
    held = prepared.exec("apt-mark showhold").stdout.split()
    assert {"tree", "runc", "containerd", "nvidia-open", "libcuda1", "nvidia-container-toolkit"} <= set(held)
    config = prepared.get("/etc/containerd/config.toml").decode()
    assert "#" in config
    assert "SystemdCgroup = true" in config


@pytest.mark.usefixtures("first")
def test_nothing_moves_the_driver(lab: Lab) -> None:
    host = lab.host("gpu-a")
    before = host.packages()
    done = host.exec("apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get -y dist-upgrade", timeout=300)
    assert done.returncode == 0, done.stderr
    assert {k: v for k, v in host.packages().items() if "nvidia" in k or k == "libcuda1"} == {
        k: v for k, v in before.items() if "nvidia" in k or k == "libcuda1"
    }


@pytest.mark.usefixtures("first")
def test_after_a_boot_everything_is_there_before_containerd(lab: Lab) -> None:
    host = lab.host("gpu-b")
    host.reboot()
    assert host.exec("ls /dev/nvidia-uvm /dev/nvidia-uvm-tools /dev/nvidia0 /dev/nvidia1").returncode == 0
    order = host.exec(
        "systemctl show -p ActiveEnterTimestampMonotonic --value containerd.service;"
        "systemctl show -p InactiveEnterTimestampMonotonic --value provision-nvidia-devices.service"
    ).stdout.split()
    assert int(order[1]) <= int(order[0]), "device files before containerd"
    assert json.loads(host.get("/var/lib/provision/selftest.json"))["result"] == "pass"
    again = applied("--limit", "gpu-b")["hosts"]["gpu-b"]
    assert (again["status"], again["changed"]) == ("ok", 0)
