"""For any realistic configuration: a second edit changes nothing, a removal gives the meaning back, comments stay,
and no other effective setting changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.containerd import Edit, Mode, edit, remove

from .seen import VERSIONS, comments, meaning, seen

Table = dict[str, Any]

RUNTIMES: dict[str, Table] = {
    "runc": {"runtime_type": "io.containerd.runc.v2", "options": {"SystemdCgroup": True}},
    "crun": {
        "runtime_type": "io.containerd.runc.v2",
        "pod_annotations": ["a/*", "b#/*"],
        "options": {"BinaryName": "/usr/bin/crun", "SystemdCgroup": False},
    },
    "kata": {"runtime_type": "io.containerd.kata.v2", "privileged_without_host_devices": True},
    "runsc": {"runtime_type": "io.containerd.runsc.v1", "options": {"TypeUrl": 'io."x".v1'}},
    "nvidia-cdi": {
        "runtime_type": "io.containerd.runc.v2",
        "options": {"BinaryName": "/usr/bin/nvidia-container-runtime.cdi"},
    },
}
CRI_SETTINGS: Table = {
    "sandbox_image": "pause:3.9",
    "max_container_log_line_size": 16384,
    "cni": {"bin_dir": "/opt/cni/bin", "conf_dir": "/etc/cni/net.d"},
    "registry": {"mirrors": {"docker.io": {"endpoint": ["https://m.example.com"]}}},
    "enable_selinux": False,
}
TOP: Table = {
    "root": "/data/containerd",
    "oom_score": -999,
    "grpc": {"address": "/run/containerd/containerd.sock", "uid": 0},
    "timeouts": {"io.containerd.timeout.shim.cleanup": "5s"},
    "required_plugins": [],
}


@st.composite
def documents(draw: st.DrawFn) -> tuple[Table, str]:
    """A configuration that its containerd accepts and whose CRI plugin loads, with that containerd."""
    release = draw(st.sampled_from(VERSIONS))
    version = draw(st.sampled_from([2, 2, 2, 3] if release.startswith("2") else [1, 2, 2]))
    plugin = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}[version]
    document: Table = {"version": version}
    document |= {key: TOP[key] for key in draw(st.lists(st.sampled_from(sorted(TOP)), unique=True, max_size=3))}
    cri = {
        key: CRI_SETTINGS[key] for key in draw(st.lists(st.sampled_from(sorted(CRI_SETTINGS)), unique=True, max_size=3))
    }
    names = draw(st.lists(st.sampled_from(sorted(RUNTIMES)), unique=True, max_size=3))
    containerd: Table = {"snapshotter": "overlayfs"} if draw(st.booleans()) else {}
    if names:
        containerd["runtimes"] = {name: RUNTIMES[name] for name in names}
        if draw(st.booleans()) or ("runc" not in names and not release.startswith("2")):
            containerd["default_runtime_name"] = draw(st.sampled_from(names))
    if containerd:
        cri["containerd"] = containerd
    plugins: Table = {plugin: cri} if cri else {}
    if draw(st.booleans()):
        plugins["opt" if version == 1 else "io.containerd.internal.v1.opt"] = {"path": "/opt/containerd"}
    if plugins:
        document["plugins"] = plugins
    return document, release


class Writer:
    """Writes a document in one of the many ways in which people and programs spell TOML."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.quote = draw(st.sampled_from("\"'"))
        self.indent = draw(st.sampled_from(["", "  ", "\t"]))
        self.lines: list[str] = []
        self.count = 0

    def name(self, key: str) -> str:
        bare = key.replace("-", "").replace("_", "").isalnum()
        return key if bare and self.draw(st.integers(0, 3)) else f"{self.quote}{key}{self.quote}"

    def value(self, item: object) -> str:
        if isinstance(item, bool):
            return str(item).lower()
        if isinstance(item, str):
            return f"'{item}'" if '"' in item or self.quote == "'" else f'"{item}"'
        if isinstance(item, list):
            if self.draw(st.booleans()) and item:
                return "[\n" + "".join(f"  {self.value(inner)}, {self.comment()}\n" for inner in item) + "]"
            return "[" + ", ".join(self.value(inner) for inner in item) + "]"
        if isinstance(item, dict):
            return "{ " + ", ".join(f"{self.name(k)} = {self.flat(v)}" for k, v in item.items()) + " }"
        return str(item)

    def flat(self, item: object) -> str:
        if isinstance(item, list):
            return "[" + ", ".join(self.value(inner) for inner in item) + "]"
        return self.value(item)

    def comment(self) -> str:
        self.count += 1
        return f"# c{self.count} [x] = 'y\""

    def line(self, depth: int, text: str) -> None:
        if not self.draw(st.integers(0, 4)):
            self.lines.append(self.draw(st.sampled_from(["", self.indent * depth + self.comment()])))
        tail = f"  {self.comment()}" if not self.draw(st.integers(0, 4)) else ""
        self.lines.append(f"{self.indent * depth}{text}{tail}")

    def table(self, path: tuple[str, ...], table: Table) -> None:
        depth = max(len(path) - 1, 0)
        later = []
        for key, item in table.items():
            style = self.draw(st.sampled_from(["header"] * 6 + ["dotted", "inline"]))
            if not isinstance(item, dict) or style == "inline":
                self.line(depth, f"{self.name(key)} = {self.value(item)}")
            elif style == "dotted" and item:
                self.dotted(depth, (key,), item)
            else:
                later.append((key, item))
        for key, item in later:
            inner = (*path, key)
            if self.draw(st.integers(0, 2)) or not any(isinstance(value, dict) for value in item.values()):
                self.line(depth, f"[{'.'.join(self.name(part) for part in inner)}]")
                self.table(inner, item)
            elif all(isinstance(value, dict) for value in item.values()):
                self.only_headers(inner, item)
            else:
                self.line(depth, f"[{'.'.join(self.name(part) for part in inner)}]")
                self.table(inner, item)

    def only_headers(self, path: tuple[str, ...], table: Table) -> None:
        for key, item in table.items():
            self.line(0, f"[{'.'.join(self.name(part) for part in (*path, key))}]")
            self.table((*path, key), item)

    def dotted(self, depth: int, path: tuple[str, ...], table: Table) -> None:
        for key, item in table.items():
            if isinstance(item, dict) and item and self.draw(st.booleans()):
                self.dotted(depth, (*path, key), item)
            else:
                self.line(depth, f"{'.'.join(self.name(part) for part in (*path, key))} = {self.value(item)}")


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, str]:
    document, release = draw(documents())
    writer = Writer(draw)
    writer.table((), document)
    newline = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    text = "\n".join(writer.lines) + draw(st.sampled_from(["\n", "", "\n# the end"]))
    data = text.replace("\n", newline).encode()
    assert meaning(data) == document, text
    return data, release


def plain(data: bytes) -> Table:
    """The document without the editor's business and without empty tables, by the names of version 2."""
    document = meaning(data)
    document.pop("version")
    plugins = document.get("plugins", {})
    for short, full in (("cri", "io.containerd.grpc.v1.cri"), ("opt", "io.containerd.internal.v1.opt")):
        if short in plugins:
            plugins[full] = plugins.pop(short)
    for table in plugins.values():
        containerd = table.get("containerd", {})
        containerd.pop("default_runtime_name", None)
        containerd.get("runtimes", {}).pop("nvidia", None)
    return without_empty(document)


def without_empty(table: Table) -> Table:
    kept = {key: without_empty(value) if isinstance(value, dict) else value for key, value in table.items()}
    return {key: value for key, value in kept.items() if value != {}}


def without_runc(table: Table) -> Table:
    for plugin in table.get("plugins", {}).values():
        plugin.get("containerd", {}).get("runtimes", {}).pop("runc", None)
    return without_empty(table)


@given(files(), st.sampled_from(Mode), st.sampled_from(["systemd", "cgroupfs"]))
@settings(max_examples=120, deadline=None)
def test_any_configuration(file: tuple[bytes, str], mode: Mode, driver: Any) -> None:
    data, release = file
    answer = edit(data, mode=mode, containerd=release, cgroup_driver=driver)
    assert isinstance(answer, Edit), answer
    result = answer.result

    again = edit(result, mode=mode, containerd=release, cgroup_driver=driver)
    assert isinstance(again, Edit)
    assert again.result == result

    assert not Counter(comments(data)) - Counter(comments(result))
    had_runc = "runc[" in seen(data, "1.7.24") and b"runtimes" in data
    assert (plain(result) if had_runc else without_runc(plain(result))) == plain(data)
    assert "nvidia[runc.v2 " in seen(result, release)
    assert seen(result, release).startswith("default=nvidia ") == (mode is Mode.DEFAULT)

    undone = remove(result, containerd=release)
    assert isinstance(undone, Edit), undone
    assert not Counter(comments(data)) - Counter(comments(undone.result))
    if meaning(undone.result)["version"] == meaning(data)["version"]:
        assert without_empty(meaning(undone.result)) == without_empty(meaning(data))
        assert seen(undone.result, release) == seen(data, release)

    other = Mode.DEFAULT if mode is Mode.RUNTIMECLASS else Mode.RUNTIMECLASS
    switched = edit(result, mode=other, containerd=release, cgroup_driver=driver)
    direct = edit(data, mode=other, containerd=release, cgroup_driver=driver)
    assert isinstance(switched, Edit)
    assert isinstance(direct, Edit)
    assert seen(switched.result, release) == seen(direct.result, release)
