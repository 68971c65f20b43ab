"""The task `cdi`, and the probe that reads specifications."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from provisioner.facts.containerd import CdiSpec, CdiSpecsProbe
from provisioner.facts.driver import LibrariesProbe, Library, LoadedModules
from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.host import Identity, IdentityProbe
from provisioner.model.action import Run
from provisioner.model.change import Kind, Note
from provisioner.model.fact import Output
from provisioner.tasks.cdi import REFRESH, Cdi
from provisioner.tasks.context import Context
from provisioner.tasks.proof import assert_settles, changes, context_of, facts_of, findings

OLD, NEW = "570.172.08", "580.95.05"
PATH = "/etc/cdi/nvidia.yaml"
GPU = "nvidia.com/gpu"
FILES = {"containerd/cdi-spec": "generate"}


def host(
    specs: dict[str, CdiSpec],
    *,
    driver: str = NEW,
    loaded: str | None = NEW,
    refresh: bool = False,
    systemd: bool = True,
) -> dict[Any, Any]:
    return {
        CdiSpecsProbe(): specs,
        LibrariesProbe(): (Library("libcuda.so.1", f"/usr/lib/libcuda.so.{driver}", driver, 1, True),)
        if driver
        else (),
        LoadedModules(): {"nvidia": loaded} if loaded else None,
        IdentityProbe(): Identity("m", "b", 1, systemd),
        FileProbe(REFRESH, content=False): FileState("file", 0o644, "root", "root", 1) if refresh else None,
    }


def context(more: dict[str, Any] | None = None, **fields: Any) -> Context:
    return context_of({"versions.driver": NEW, **(more or {})}, files=FILES, **fields)


def test_a_specification_of_another_driver_is_made_anew() -> None:
    (change,) = assert_settles(
        Cdi(),
        before=host({PATH: CdiSpec(GPU, (OLD,))}),
        after=host({PATH: CdiSpec(GPU, (NEW,))}),
        ctx=context(),
    )
    assert (change.subject, change.kind) == (PATH, Kind.UPDATE)
    assert change.summary == f"CDI specification for driver {OLD} → {NEW}"
    assert change.actions == (Run("generate", "nvidia-ctk cdi generate", timeout=120.0),)


def test_one_that_names_two_drivers_is_stale_and_one_that_names_none_is_left() -> None:
    assert changes(Cdi(), host({PATH: CdiSpec(GPU, (OLD, NEW))}), context())
    assert not findings(Cdi(), host({PATH: CdiSpec(GPU)}), context({"containerd.enable_cdi": True}))


def test_others_specifications_are_told_of() -> None:
    (note,) = findings(Cdi(), host({"/var/run/cdi/x.yaml": CdiSpec("management.nvidia.com/gpu", (OLD,))}), context())
    assert isinstance(note, Note)
    assert OLD in note.text


def test_the_first_one_is_made_only_where_cdi_is_wanted() -> None:
    assert not findings(Cdi(), host({}), context())
    assert not findings(Cdi(), host({}), context({"containerd.enable_cdi": False}))
    wanted = context({"containerd.enable_cdi": True})
    (change,) = assert_settles(Cdi(), before=host({}), after=host({PATH: CdiSpec(GPU, (NEW,))}), ctx=wanted)
    assert (change.kind, change.summary) == (Kind.CREATE, f"{PATH}, for driver {NEW}")
    (own,) = changes(Cdi(), host({}, refresh=True), wanted)
    assert own.summary.startswith("/var/run/cdi/nvidia.yaml"), "where the toolkit's own unit keeps it"


def test_a_driver_that_is_loaded_and_not_the_installed_one_waits_for_its_change() -> None:
    (change,) = changes(Cdi(), host({PATH: CdiSpec(GPU, (OLD,))}, loaded=OLD), context())
    assert change.deferred is not None
    assert "upgrade-driver" in change.deferred.command
    (change,) = changes(Cdi(), host({PATH: CdiSpec(GPU, (OLD,))}, loaded=None), context())
    assert change.deferred is not None
    assert "isn't loaded" in change.deferred.reason


def test_what_this_plan_installs_is_announced() -> None:
    planned = ("packages/driver:packages", "modules/modules:load")
    (change,) = changes(Cdi(), host({PATH: CdiSpec(GPU, (OLD,))}, driver=OLD, loaded=None), context(planned=planned))
    assert change.provisional
    assert change.requires == planned
    assert change.deferred is None


def test_an_image_has_no_driver_to_ask() -> None:
    (note,) = findings(Cdi(), host({PATH: CdiSpec(GPU, (OLD,))}, loaded=None, systemd=False), context())
    assert isinstance(note, Note)
    assert not findings(Cdi(), host({PATH: CdiSpec(GPU, (OLD,))}, driver=""), context())


def test_what_the_facts_show() -> None:
    specs = {
        PATH: CdiSpec(GPU, (OLD,)),
        "/var/run/cdi/a.yaml": CdiSpec(GPU, (OLD, NEW)),
        "/etc/cdi/b.json": CdiSpec(GPU),
    }
    told = Cdi().describe(facts_of(host(specs)), context())
    assert told == {"cdi": {PATH: OLD, "/var/run/cdi/a.yaml": [OLD, NEW], "/etc/cdi/b.json": None}}


def test_specifications_are_read_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "run").mkdir()
    mount = (
        f"    - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{OLD}\n      containerPath: /usr/lib/libcuda.so.{OLD}\n"
    )
    (tmp_path / "etc" / "nvidia.yaml").write_text(
        f'---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: "0"\ncontainerEdits:\n  mounts:\n{mount}'
    )
    (tmp_path / "run" / "n.json").write_text(
        f'{{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{{"name":"gpu0"}}],"a":"/lib/libnvidia-ml.so.{NEW}",'
        f'"b":"/lib/libcuda.so.{OLD}"}}'
    )
    (tmp_path / "etc" / "other.yaml").write_text("kind: vendor.com/net\n")
    (tmp_path / "etc" / "nvidia-imex.yaml").write_text('kind: "nvidia.com/imex-channel"\n')
    script = (
        CdiSpecsProbe()
        .script()
        .replace("/etc/cdi", str(tmp_path / "etc"))
        .replace("/var/run/cdi", str(tmp_path / "run"))
    )
    done = subprocess.run(["sh"], input=script.encode(), capture_output=True, check=True)
    assert CdiSpecsProbe().parse(Output(0, done.stdout)) == {
        str(tmp_path / "etc" / "nvidia.yaml"): CdiSpec(GPU, (OLD,)),
        str(tmp_path / "etc" / "nvidia-imex.yaml"): CdiSpec("nvidia.com/imex-channel"),
        str(tmp_path / "run" / "n.json"): CdiSpec(GPU, (OLD, NEW), numbered=True),
    }
