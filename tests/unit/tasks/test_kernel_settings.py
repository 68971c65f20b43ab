"""sysctl and kernel.modules: for the next boot and now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.host import Identity, IdentityProbe
from provisioner.facts.kmod import KernelModules, KernelModulesProbe
from provisioner.facts.sysctl import Sysctl, SysctlProbe, proc_path
from provisioner.model.action import RemoveFile, Run, WriteFile
from provisioner.model.change import Kind, Note
from provisioner.model.fact import Known
from provisioner.tasks.kernel_modules import KernelModulesTask
from provisioner.tasks.proof import assert_settles, changes, findings
from provisioner.tasks.sysctl import SysctlTask
from provisioner.tasks.task import build
from tests.unit.facts.shell import ask, put

KEY = SysctlProbe("vm.max_map_count")
PATH = "/etc/sysctl.d/90-provision-vm.max_map_count.conf"
BOOTED, IMAGE = Identity("m", "b", 1, True), Identity("m", "b", 1, False)
MAPS = SysctlTask(key="vm.max_map_count", value=262144)


def state(content: str) -> FileState:
    return FileState("file", 0o644, "root", "root", len(content), content)


def maps(now: str | None, *settings: tuple[str, str], host: Identity = BOOTED) -> dict[Any, Any]:
    ours = dict(settings).get(PATH)
    there = state(f"vm.max_map_count = {ours}\n") if ours else None
    return {IdentityProbe(): host, KEY: Sysctl(now, settings), FileProbe(PATH): there}


def test_a_parameter_is_written_down_and_set() -> None:
    written, now = assert_settles(MAPS, before=maps("65530"), after=maps("262144", (PATH, "262144")))
    assert written.actions == (WriteFile(PATH, "vm.max_map_count = 262144\n"),)
    assert (now.kind, now.summary) == (Kind.RUN, "65530 → 262144")
    assert isinstance(now.actions[0], Run)
    assert now.actions[0].script == "printf '%s\\n' 262144 >/proc/sys/vm/max_map_count"


def test_a_later_file_is_named_and_not_fought() -> None:
    later = ("/etc/sysctl.d/99-site.conf", "1")
    found = findings(MAPS, maps("1", (PATH, "262144"), later))
    assert found == [
        Note(
            "vm.max_map_count",
            f"/etc/sysctl.d/99-site.conf sets vm.max_map_count = 1 and is read after {PATH}: change it there",
        )
    ]
    earlier = ("/usr/lib/sysctl.d/50-default.conf", "1")
    assert not findings(MAPS, maps("262144", earlier, (PATH, "262144")))


def test_a_parameter_that_the_kernel_does_not_have_yet() -> None:
    found = findings(MAPS, maps(None, (PATH, "262144")))
    assert isinstance(found[0], Note)
    assert not changes(MAPS, maps(None, (PATH, "262144")))


def test_an_image_has_no_kernel_of_its_own() -> None:
    assert not findings(MAPS, maps("65530", (PATH, "262144"), host=IMAGE))


def test_white_space_does_not_count() -> None:
    task = SysctlTask(key="net.ipv4.tcp_rmem", value="4096  131072 6291456")
    path = FileProbe(task.path)
    there = {IdentityProbe(): BOOTED, path: state("net.ipv4.tcp_rmem = 4096 131072 6291456\n")}
    assert not changes(task, {**there, SysctlProbe(task.key): Sysctl("4096 131072 6291456")})


def test_names_with_dots_in_interfaces() -> None:
    assert proc_path("net/ipv4/conf/eth0.100/rp_filter") == "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"
    assert proc_path("vm.swappiness") == "/proc/sys/vm/swappiness"


def test_files_in_the_order_of_systemd(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "/proc/sys/vm/swappiness": "60\n",
            "/etc/sysctl.d/10-a.conf": "vm.swappiness=1\n",
            "/usr/lib/sysctl.d/10-a.conf": "vm.swappiness = 2\n",
            "/usr/lib/sysctl.d/99-z.conf": "# vm.swappiness = 3\n-vm/swappiness =  4 \nvm.swappiness_x = 5\n",
            "/run/sysctl.d/50-b.conf": "; no\nvm.swappiness = 6\n",
        },
    )
    found = ask(SysctlProbe("vm.swappiness"), tmp_path)
    assert isinstance(found, Known)
    assert found.value.now == "60"
    assert [(path.removeprefix(str(tmp_path)), value) for path, value in found.value.settings] == [
        ("/etc/sysctl.d/10-a.conf", "1"),
        ("/run/sysctl.d/50-b.conf", "6"),
        ("/usr/lib/sysctl.d/99-z.conf", "4"),
    ]


LOAD = "/etc/modules-load.d/provision-rdma.conf"
PROBE = "/etc/modprobe.d/provision-rdma.conf"
RDMA = KernelModulesTask(file="rdma", load=("ib-uverbs",), keep_out=("pcspkr",), options={"ib-uverbs": "x=1"})
NAMES = KernelModulesProbe(("ib_uverbs", "pcspkr"))
OURS = "blacklist pcspkr\ninstall pcspkr /bin/false\noptions ib-uverbs x=1\n"


def modules(load: str | None, probe: str | None, now: KernelModules, host: Identity = BOOTED) -> dict[Any, Any]:
    return {
        IdentityProbe(): host,
        FileProbe(LOAD): state(load) if load is not None else None,
        FileProbe(PROBE): state(probe) if probe is not None else None,
        NAMES: now,
    }


def test_modules_are_written_down_and_loaded() -> None:
    found = assert_settles(
        RDMA,
        before=modules(None, None, KernelModules(available=frozenset({"ib_uverbs"}))),
        after=modules("ib-uverbs\n", OURS, KernelModules(loaded=frozenset({"ib_uverbs"}))),
    )
    assert [change.subject for change in found] == [LOAD, PROBE, "ib_uverbs"]
    assert isinstance(found[2].actions[0], Run)
    assert found[2].actions[0].script == "modprobe ib_uverbs"
    assert not found[2].provisional


def test_a_module_that_is_not_on_disk_is_announced() -> None:
    (change,) = changes(RDMA, modules("ib-uverbs\n", OURS, KernelModules()))
    assert change.provisional


def test_a_module_to_keep_out_that_is_loaded_is_named() -> None:
    loaded = KernelModules(loaded=frozenset({"ib_uverbs", "pcspkr"}))
    assert findings(RDMA, modules("ib-uverbs\n", OURS, loaded)) == [
        Note("pcspkr", "pcspkr is loaded now and stays so until the next boot")
    ]


def test_an_image_only_gets_files() -> None:
    found = changes(RDMA, modules(None, None, KernelModules(), host=IMAGE))
    assert [change.subject for change in found] == [LOAD, PROBE]


def test_a_file_that_is_no_longer_wanted_goes() -> None:
    task = KernelModulesTask(file="rdma", load=("ib-uverbs",))
    there = modules("ib-uverbs\n", OURS, KernelModules())
    del there[NAMES]
    there[KernelModulesProbe(("ib_uverbs",))] = KernelModules(loaded=frozenset({"ib_uverbs"}))
    (change,) = changes(task, there)
    assert change.actions == (RemoveFile(PROBE),)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("sysctl", {"key": "../../etc/passwd", "value": 1}),
        ("sysctl", {"key": "vm.x", "value": "1\nvm.y = 2"}),
        ("sysctl", {"key": "vm.x", "value": 1, "order": 100}),
        ("kernel.modules", {"file": "../x"}),
        ("kernel.modules", {"file": "x", "load": ["a;b"]}),
        ("kernel.modules", {"file": "x", "load": ["a-b"], "keep_out": ["a_b"]}),
        ("kernel.modules", {"file": "x", "options": {"a": "b\ninstall c /bin/sh"}}),
    ],
)
def test_wrong_fields_are_refused(name: str, fields: dict[str, Any]) -> None:
    with pytest.raises(PlaybookError):
        build(name, fields)
