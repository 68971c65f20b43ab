"""The task `containerd`: facts in, changes, refusals and notes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from provisioner.containerd import Mode, edit
from provisioner.containerd.result import Edit
from provisioner.facts.containerd import ClientsProbe, Dump, DumpProbe, Imported, ImportedProbe, PluginsProbe
from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.host import Identity, IdentityProbe
from provisioner.facts.kubelet import Kubelet, KubeletProbe
from provisioner.facts.runtime import ContainerdVersionProbe
from provisioner.facts.services import Inputs, Unit, UnitProbe
from provisioner.model.action import Guarded, RemoveFile, Restore, Run, Service, WriteFile
from provisioner.model.change import Change, Disruption, Kind, Note, Refusal
from provisioner.model.fact import Output, Unknown
from provisioner.tasks.containerd import Containerd, inputs_probe
from provisioner.tasks.context import Context
from provisioner.tasks.proof import Verbatim, assert_settles, changes, context_of, facts_of, findings
from tests.unit.containerd.seen import BINARY, CASES

SEEN = CASES.parent / "dumps"
CONFIG = "/etc/containerd/config.toml"
FILES = {"containerd/check-candidate": "candidate", "containerd/check-running": "running"}
STOCK = (CASES / "debian-stock.toml").read_text()
RUNS = Unit(enabled="enabled", load="loaded", active="active", sub="running", started=1000.0)
CURRENT = Inputs(now=f"aa  {CONFIG}\n", stamp=f"aa  {CONFIG}\n", changed=900.0)
SYSTEMD = Identity("m", "b", 1, True)


def context(more: dict[str, Any] | None = None, **fields: Any) -> Context:
    return context_of({"containerd.cgroup_driver": "systemd", **(more or {})}, files=FILES, **fields)


class Shown(Verbatim):
    """A template is its name, how many plugins it asks for, and the handler."""

    def template(self, name: str, values: Mapping[str, Any]) -> str:
        return f"{name} {len(values.get('plugins', ()))} {values.get('handler', '')}"


def config(text: str, mode: int = 0o644, link: str | None = None) -> FileState:
    return FileState("file", mode, "root", "root", len(text), text, link)


def right(text: str = STOCK, mode: Mode = Mode.DEFAULT, release: str = "1.7.24") -> str:
    """The file as the editor leaves it."""
    edited = edit(text.encode(), mode=mode, containerd=release, cgroup_driver="systemd")
    assert isinstance(edited, Edit)
    return edited.result.decode()


def host(text: str | None = STOCK, **facts: Any) -> dict[Any, Any]:
    """Debian 13 with containerd 1.7 running, its own file, and the toolkit's runtime."""
    given: dict[Any, Any] = {
        IdentityProbe(): SYSTEMD,
        ContainerdVersionProbe(): "containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6",
        KubeletProbe(): None,
        FileProbe(BINARY, content=False): FileState("file", 0o755, "root", "root", 1),
        FileProbe(CONFIG): None if text is None else config(text),
        ImportedProbe(CONFIG): None if text is None else Imported(),
        DumpProbe(CONFIG): Dump((SEEN / "1.7.24.toml").read_text()),
        PluginsProbe(CONFIG): (SEEN / "plugins-1.7.24.txt").read_text(),
        ClientsProbe(): ("ctr",),
        UnitProbe("containerd.service"): RUNS,
        inputs_probe(CONFIG): CURRENT,
    }
    names = {
        "identity": IdentityProbe(),
        "version": ContainerdVersionProbe(),
        "kubelet": KubeletProbe(),
        "binary": FileProbe(BINARY, content=False),
        "file": FileProbe(CONFIG),
        "imported": ImportedProbe(CONFIG),
        "dump": DumpProbe(CONFIG),
        "plugins": PluginsProbe(CONFIG),
        "clients": ClientsProbe(),
        "unit": UnitProbe("containerd.service"),
        "inputs": inputs_probe(CONFIG),
    }
    return given | {names[name]: value for name, value in facts.items()}


def one(facts: dict[Any, Any], ctx: Context | None = None) -> Change:
    (change,) = changes(Containerd(), facts, ctx or context())
    return change


def refusal(facts: dict[Any, Any], ctx: Context | None = None) -> Refusal:
    (found,) = [each for each in findings(Containerd(), facts, ctx or context()) if not isinstance(each, Note)]
    assert isinstance(found, Refusal)
    assert found.remedy
    return found


def test_the_stock_file_is_edited_and_then_nothing_is_left() -> None:
    (change,) = assert_settles(Containerd(), before=host(), after=host(right()), ctx=context())
    assert (change.subject, change.kind, change.summary) == (CONFIG, Kind.UPDATE, "the handler nvidia, the default")
    assert change.disruption is Disruption.SERVICE
    assert change.disrupts == "restarts containerd"
    assert (change.before, change.after) == (STOCK, right())
    assert any("Added the handler nvidia" in note for note in change.notes)
    assert not change.provisional


def test_a_candidate_is_read_first_then_written_guarded_and_put_back_on_failure() -> None:
    write, read, guarded = one(host()).actions
    assert write == WriteFile(f"{CONFIG}.provision-candidate", right(), mode=0o644)
    assert isinstance(read, Run)
    assert read.script == "candidate"
    assert isinstance(guarded, Guarded)
    kinds = [type(action).__name__ for action in guarded.actions]
    assert kinds == ["WriteFile", "Run", "Service", "Run"]
    assert guarded.actions[0] == WriteFile(CONFIG, right(), keep_previous=True)
    assert guarded.actions[2] == Service("containerd.service", state="restarted")
    assert [type(action) for action in guarded.undo] == [Restore, RemoveFile, Run, Service]
    assert guarded.check == guarded.check_undo == "running"


def test_that_containerd_runs_with_the_file_is_noted_only_after_the_restart() -> None:
    guarded = one(host()).actions[-1]
    assert isinstance(guarded, Guarded)
    note, restart, keep = guarded.actions[1:]
    assert isinstance(note, Run)
    assert isinstance(restart, Service)
    assert isinstance(keep, Run)
    assert note.script.rstrip().endswith(".new")
    assert "/var/lib/provision/stamps/containerd.service.new" in keep.script


@pytest.mark.parametrize("mode", Mode)
def test_both_modes_and_from_one_to_the_other(mode: Mode) -> None:
    other = Mode.RUNTIMECLASS if mode is Mode.DEFAULT else Mode.DEFAULT
    ctx = context({"containerd.mode": mode.value})
    (change,) = assert_settles(
        Containerd(), before=host(right(mode=other)), after=host(right(right(mode=other), mode)), ctx=ctx
    )
    assert change.after is not None
    assert ('default_runtime_name = "nvidia"' in change.after) == (mode is Mode.DEFAULT)


def test_a_file_only_root_can_read_stays_so_and_so_is_its_candidate() -> None:
    link = config(STOCK, 0o600, link="/srv/containerd.toml")
    change = one(host(file=link))
    write, _, guarded = change.actions
    assert isinstance(write, WriteFile)
    assert write.mode == 0o600
    assert isinstance(guarded, Guarded)
    assert guarded.actions[0] == WriteFile(CONFIG, right(), keep_previous=True)


def test_without_a_file_one_is_made() -> None:
    change = one(host(None))
    assert change.kind is Kind.CREATE
    assert change.before is None
    assert change.after is not None
    assert change.after.startswith("version = 2\n")


def test_the_kubelets_cgroup_driver_decides_where_the_inventory_says_nothing() -> None:
    change = one(host(kubelet=Kubelet("kubelet", True, "cgroupfs")), context_of({}, files=FILES))
    assert change.after is not None
    assert "SystemdCgroup = false" in change.after


def test_an_unknown_cgroup_driver_stops_with_what_to_set() -> None:
    assert "containerd.cgroup_driver" in refusal(host(), context_of({}, files=FILES)).remedy


def test_what_cannot_be_edited_is_refused_with_the_reason() -> None:
    broken = refusal(host("version = 2\n[plugins\n"))
    assert broken.what == f"{CONFIG} can't be edited"
    assert broken.why
    assert "not a file" in refusal(host(file=FileState("dangling", 0o777, "root", "root", 0))).what


def test_a_broken_file_with_a_good_edit_is_repaired_and_only_its_own_state_is_asked_of_the_way_back() -> None:
    half = (CASES / "half-done.toml").read_text()
    down = (SEEN / "plugins-1.7.24.txt").read_text().replace("linux/amd64    ok", "linux/amd64    error")
    asked = replace(context(), renderer=Shown())
    for plugins, way_back in ((down, 0), ((SEEN / "plugins-1.7.24.txt").read_text(), 1)):
        change = one(host(half, dump=Dump("", "containerd: invalid"), plugins=plugins), asked)
        assert change.subject == CONFIG
        guarded = change.actions[-1]
        assert isinstance(guarded, Guarded)
        assert guarded.check == "containerd/check-running 1 nvidia"
        assert guarded.check_undo == f"containerd/check-running {way_back} "


def test_imports_count_and_one_that_was_not_read_stops() -> None:
    imports = 'imports = ["conf.d/*.toml"]\n' + STOCK
    seen = Imported({"/etc/containerd/conf.d/a.toml": 'version = 2\ndisabled_plugins = ["cri"]\n'},
                    ("/etc/containerd/conf.d/*.toml",))  # fmt: skip
    assert "switches the CRI plugin off" in refusal(host(imports, imported=seen)).why
    assert "wasn't read" in refusal(host(imports)).what
    assert one(host(imports, imported=Imported({}, seen.patterns)))


@pytest.mark.parametrize(
    ("unit", "note"),
    [
        (replace(RUNS, active="inactive", sub="dead", started=None), True),
        (replace(RUNS, enabled="masked", load="masked", active="inactive", sub="dead", started=None), True),
        (None, True),
    ],
)
def test_a_containerd_that_does_not_run_is_not_started(unit: Unit | None, note: bool) -> None:
    change = one(host(unit=unit, plugins=None))
    assert [type(action) for action in change.actions] == [WriteFile, Run, WriteFile]
    assert change.disruption is Disruption.NONE
    assert any("doesn't run" in each for each in change.notes) == note
    after = findings(Containerd(), host(right(), unit=unit, plugins=None), context())
    assert [type(each) for each in after] == [Note]


def test_an_image_is_edited_without_a_running_systemd() -> None:
    image: dict[str, Any] = {
        "identity": replace(SYSTEMD, systemd=False),
        "unit": Unknown("there is no systemctl on this host"),
        "plugins": None,
        "clients": (),
    }
    (change,) = assert_settles(Containerd(), before=host(**image), after=host(right(), **image), ctx=context())
    assert [type(action) for action in change.actions] == [WriteFile, Run, WriteFile]
    assert change.disruption is Disruption.NONE


def test_a_containerd_that_failed_is_mended_and_only_its_file_comes_back() -> None:
    failed = replace(RUNS, active="failed", sub="failed", started=None)
    guarded = one(host(unit=failed, plugins=None)).actions[-1]
    assert isinstance(guarded, Guarded)
    assert guarded.check_undo == ":"
    assert [type(action) for action in guarded.undo] == [Restore, RemoveFile, Run, Run]
    assert one(host(right(), unit=failed, plugins=None)).summary == "restarted: it failed"


def test_nothing_to_ask_a_restarted_containerd_with_is_refused() -> None:
    assert "ctr" in refusal(host(clients=())).what
    assert one(host(clients=("crictl",), plugins=None))


def test_the_right_file_and_a_containerd_that_started_before_it_is_restarted() -> None:
    changed = Inputs(now=f"bb  {CONFIG}\n", stamp=f"aa  {CONFIG}\n", changed=1100.0)
    change = one(host(right(), inputs=changed))
    assert (change.subject, change.kind) == ("containerd.service", Kind.RUN)
    assert change.summary == "restarted: its configuration changed since it started"
    assert change.disruption is Disruption.SERVICE
    by_hand = Inputs(now=f"bb  {CONFIG}\n", stamp=f"aa  {CONFIG}\n", changed=990.0)
    assert not changes(Containerd(), host(right(), inputs=by_hand), context()), "somebody has restarted it since"


def test_an_import_that_has_gone_is_a_change() -> None:
    gone = Inputs(now=f"aa  {CONFIG}\n", stamp=f"aa  {CONFIG}\nbb  /etc/containerd/conf.d/x.toml\n", changed=900.0)
    assert one(host(right(), inputs=gone)).subject == "containerd.service"


def test_the_right_file_and_a_cri_plugin_that_is_down_is_restarted() -> None:
    down = (SEEN / "plugins-1.7.24.txt").read_text()
    down = "\n".join(line for line in down.splitlines() if " cri " not in line)
    assert "isn't there" in one(host(right(), plugins=down)).summary


def test_a_dump_that_is_not_as_wanted_although_the_file_looks_right_is_refused() -> None:
    other = (SEEN / "1.7.24.toml").read_text().replace(f'BinaryName = "{BINARY}"', 'BinaryName = ""')
    assert "effective configuration" in refusal(host(right(), dump=Dump(other))).what


def test_files_that_this_plan_writes_are_waited_for() -> None:
    drop_in = "/etc/containerd/conf.d/x.toml"
    imports = Imported({}, ("/etc/containerd/conf.d/*.toml",))
    text = right('imports = ["/etc/containerd/conf.d/*.toml"]\n' + STOCK)
    ctx = context(pending={drop_in: f"site/file:{drop_in}"})
    change = one(host(text, imported=imports), ctx)
    assert change.provisional
    assert change.requires == (f"site/file:{drop_in}",)
    unedited = one(host('imports = ["/etc/containerd/conf.d/*.toml"]\n' + STOCK, imported=imports), ctx)
    assert unedited.provisional
    assert unedited.requires == change.requires
    assert not changes(Containerd(), host(right()), ctx), "nothing imports that file"


def test_the_toolkit_comes_first_or_nothing_is_done() -> None:
    assert "nothing in this plan brings it" in refusal(host(binary=None)).what
    change = one(host(binary=None), context(planned=("packages/toolkit:packages",)))
    assert change.requires == ("packages/toolkit:packages",)


def test_a_containerd_that_is_to_be_installed_is_announced() -> None:
    bare = host(None, version=None, dump=None, plugins=None, clients=(), unit=None)
    (note,) = findings(Containerd(), bare, context())
    assert isinstance(note, Note)
    planned = ("packages/containerd.package:containerd",)
    change = one(bare, context(planned=planned))
    assert change.provisional
    assert (change.subject, change.requires, change.actions) == (CONFIG, planned, ())
    unsaid = refusal(bare, context_of({}, files=FILES, planned=planned))
    assert "containerd.cgroup_driver" in unsaid.remedy, "known before anything is installed"


def test_what_the_facts_show() -> None:
    told = Containerd().describe(_facts(host(right())), context())["containerd"]
    assert told["version"] == "1.7.24"
    assert (told["default_runtime"], told["cri"]) == ("nvidia", True)
    assert {"nvidia", "runc"} <= set(told["handlers"])
    assert Containerd().describe(_facts(host(version=None)), context()) == {"containerd": None}
    odd = Containerd().describe(_facts(host(version="containerd 0.2")), context())["containerd"]
    assert odd["version"] == "containerd 0.2"


def _facts(given: dict[Any, Any]) -> Any:
    return facts_of(given)


def test_imports_are_read_as_they_come() -> None:
    found = ImportedProbe(CONFIG).parse(
        Output(
            0,
            b"look /etc/containerd/./conf.d/*.toml\nfile 12 /etc/containerd/./conf.d/a.toml\nversion = 2\nfile 0 /b\n",
        )
    )
    assert found == Imported(
        {"/etc/containerd/conf.d/a.toml": "version = 2\n", "/b": ""}, ("/etc/containerd/conf.d/*.toml",)
    )
    with pytest.raises(ValueError, match="can't be read"):
        ImportedProbe(CONFIG).parse(Output(0, b"what\n"))
