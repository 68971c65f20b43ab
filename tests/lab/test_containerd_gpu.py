"""A container with a card, started by containerd itself: the proof between a host that is ready and a cluster."""

from __future__ import annotations

import pytest

from tests.lab import Lab, LabHost
from tests.lab.containerdhosts import RUNTIME, ctr_run, rootfs, statuses
from tests.lab.site import GPU_NODE, Site

NEW, OLD = "580.95.05", "570.172.08"
SPEC = "/var/run/cdi/nvidia.yaml"


@pytest.fixture(scope="module")
def node(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[LabHost, Site]:
    """A bare host with containerd 2 that became a GPU node with CDI."""
    lab.reset("gpu-e")
    host = lab.host("gpu-e")
    site = Site(tmp_path_factory.mktemp("site"))
    site.write(host, text=GPU_NODE.replace("[containerd]", "[containerd]\nenable_cdi = true"))
    assert site.run("lock").returncode == 0
    answer = site.json("apply", "--yes")["hosts"]["gpu-e"]
    assert answer["status"] == "changed", answer
    rootfs(host)
    return host, site


def test_a_container_of_the_nvidia_runtime_sees_the_card(node: tuple[LabHost, Site]) -> None:
    host, _ = node
    assert statuses([host])["gpu-e"].startswith("default=nvidia nvidia[")
    look = "stat -c %n-%t:%T /dev/nvidia0 /dev/nvidiactl"
    inside = host.exec(ctr_run("card", look, *devices(host)), check=True).stdout
    assert inside == host.exec(look, check=True).stdout, "the same devices"
    assert inside.startswith("/dev/nvidia0-")


def test_it_is_the_toolkits_runtime_that_starts_it(node: tuple[LabHost, Site]) -> None:
    host, _ = node
    host.exec(f"chmod a-x {RUNTIME}", check=True)
    try:
        refused = host.exec(ctr_run("none", "true"))
        assert refused.returncode != 0
        assert RUNTIME in refused.stderr
    finally:
        host.exec(f"chmod a+x {RUNTIME}", check=True)


def devices(host: LabHost) -> list[str]:
    """What the specification for CDI says of the first card, as options of ctr, which knows no CDI itself."""
    spec = host.get(SPEC).decode()
    nodes = dict.fromkeys(part for part in spec.split() if part.startswith("/dev/nvidia") and part != "/dev/nvidia1")
    options = [f"--device {node}" for node in nodes]
    libraries = [part for part in spec.split() if f".so.{NEW}" in part]
    assert libraries, "it names the driver's libraries"
    return options


def test_a_container_of_another_runtime_has_none(node: tuple[LabHost, Site]) -> None:
    host, _ = node
    assert "no card" in host.exec(ctr_run("bare", "test -e /dev/nvidia0 || echo no card"), check=True).stdout


def test_a_specification_of_another_driver_is_made_anew(node: tuple[LabHost, Site]) -> None:
    host, site = node
    right = host.get(SPEC)
    facts = site.json("facts")["hosts"]["gpu-e"]
    assert facts["cdi"] == {SPEC: NEW}
    host.put("/etc/cdi/nvidia.yaml", right.decode().replace(NEW, OLD), 0o640)
    (change,) = site.json("apply", "--yes")["hosts"]["gpu-e"]["changes"]
    assert (change["id"], change["ok"]) == ("containerd/cdi:/etc/cdi/nvidia.yaml", True)
    assert host.get("/etc/cdi/nvidia.yaml") == right
    assert host.exec("stat -c %a /etc/cdi/nvidia.yaml; ls -A /etc/cdi").stdout.split() == ["640", "nvidia.yaml"]
    assert site.json("apply", "--yes")["hosts"]["gpu-e"]["status"] == "ok"


def test_the_toolkits_own_file_is_edited_in_place(node: tuple[LabHost, Site]) -> None:
    host, site = node
    path = "/etc/nvidia-container-runtime/config.toml"
    before = host.get(path).decode().splitlines()
    answer = site.json("apply", "--yes", "--set", "toolkit.mode=cdi", "--set", "toolkit.no_cgroups=true")
    (change,) = answer["hosts"]["gpu-e"]["changes"]
    assert change["id"] == f"containerd/toolkit.config:{path}"
    after = host.get(path).decode().splitlines()
    assert 'mode = "cdi"' in after
    assert [line for line in before if line not in after] == ['mode = "auto"']
