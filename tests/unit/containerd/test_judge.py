"""The content of real dumps and plugin listings (containerd 1.6.20, 1.7.24, 2.1.9) judged, whole and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.containerd import handlers, judge, needed_plugins, plugins_ok

from .seen import BINARY, VERSIONS

DUMPS = Path(__file__).parent / "dumps"


def dump(release: str) -> str:
    """`containerd config dump` of Debian's stock file after the edit, nvidia as the default."""
    return (DUMPS / f"{release}.toml").read_text()


def found(text: str, release: str) -> set[str]:
    return {problem.check for problem in judge(text, release)}


@pytest.mark.parametrize("release", VERSIONS)
def test_a_right_dump_has_no_problem(release: str) -> None:
    assert judge(dump(release), release) == ()


@pytest.mark.parametrize("release", VERSIONS)
def test_the_handlers_of_a_dump(release: str) -> None:
    read = handlers(dump(release), release)
    nvidia = read.handler("nvidia")
    assert nvidia is not None
    assert (nvidia.runtime_type, nvidia.binary, nvidia.systemd_cgroup) == ("io.containerd.runc.v2", BINARY, True)
    assert (read.default, read.cri_enabled) == ("nvidia", True)
    assert read.enable_cdi is {"1.6.20": None, "1.7.24": False, "2.1.9": True}[release]
    assert read.handler("kata") is None


CRI = 'plugins."io.containerd.grpc.v1.cri"'


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ('default_runtime_name = "nvidia"', 'default_runtime_name = "nvidea"', "default-missing"),
        ("disabled_plugins = []", 'disabled_plugins = ["io.containerd.grpc.v1.cri"]', "cri-disabled"),
        (f'BinaryName = "{BINARY}"', 'BinaryName = ""', "nvidia-binary"),
        (
            f'"{BINARY}"\n            SystemdCgroup = true',
            f'"{BINARY}"\n            SystemdCgroup = "true"',
            "nvidia-cgroup",
        ),
        (
            f'"{BINARY}"\n            SystemdCgroup = true',
            f'"{BINARY}"\n            SystemdCgroup = false',
            "nvidia-cgroup",
        ),
        (f'"{BINARY}"\n            SystemdCgroup = true', f'"{BINARY}"', "nvidia-cgroup"),
        ("systemd_cgroup = false", "systemd_cgroup = true", "legacy-switch"),
        ("no_pivot = false", "no_pivot = true", "legacy-switch"),
        ("runtimes.runc", "runtimes.nvidia-other", "runc-missing"),
        ("runtimes.nvidia", "runtimes.other", "nvidia-missing"),
        (f"[{CRI}.registry.mirrors]", f'[{CRI}.registry.mirrors.x]\nendpoint = ["https://x"]\n', ""),
        ("= 2", "= = 2", "dump"),
    ],
)
def test_every_mistake_that_a_dump_shows(old: str, new: str, check: str) -> None:
    text = dump("1.7.24")
    assert old in text
    if check:
        assert check in found(text.replace(old, new), "1.7.24")
    else:
        with_path = text.replace(old, new).replace('config_path = ""', 'config_path = "/etc/containerd/certs.d"', 1)
        assert found(text.replace(old, new), "1.7.24") == set()
        assert found(with_path, "1.7.24") == {"registry"}


def test_a_runtime_type_that_is_missing_and_a_table_that_beats_the_default() -> None:
    text = dump("1.7.24")
    start = text.index(f"[{CRI}.containerd.runtimes.nvidia]")
    emptied = text[:start] + text[start:].replace('runtime_type = "io.containerd.runc.v2"', 'runtime_type = ""', 1)
    assert "nvidia-type" in found(emptied, "1.7.24")
    start = text.index(f"[{CRI}.containerd.default_runtime]")
    beaten = text[:start] + text[start:].replace('runtime_type = ""', 'runtime_type = "io.containerd.runc.v2"', 1)
    assert found(beaten, "1.7.24") == {"default-table"}
    assert handlers(beaten, "1.7.24").default == "default"


def test_mistakes_in_a_dump_of_containerd_2() -> None:
    text = dump("2.1.9")
    assert found(text.replace("default_runtime_name = 'nvidia'", "default_runtime_name = 'x'"), "2.1.9") == {
        "default-missing"
    }
    off = text.replace("disabled_plugins = []", "disabled_plugins = ['io.containerd.cri.v1.images']")
    assert found(off, "2.1.9") == {"cri-disabled"}
    assert not handlers(off, "2.1.9").cri_enabled


def test_a_dump_that_cannot_be_read() -> None:
    assert found("containerd: failed to load TOML", "2.1.9") == {"dump"}
    with pytest.raises(ValueError, match="TOML"):
        handlers("= 2", "2.1.9")


@pytest.mark.parametrize("release", VERSIONS)
def test_a_listing_with_the_plugin_loaded(release: str) -> None:
    assert plugins_ok((DUMPS / f"plugins-{release}.txt").read_text(), release) == ()


@pytest.mark.parametrize("release", VERSIONS)
def test_a_listing_with_the_plugin_failed_or_absent(release: str) -> None:
    lines = (DUMPS / f"plugins-{release}.txt").read_text().splitlines()
    for kind, name in needed_plugins(release):
        for replacement in (f"{kind} {name} linux/amd64 error", ""):
            text = "\n".join(replacement if line.split()[:2] == [kind, name] else line for line in lines)
            problems = plugins_ok(text, release)
            assert len(problems) == 1
            assert f"{kind}.{name}" in problems[0].message


def test_an_unknown_version_is_a_problem() -> None:
    assert plugins_ok("", "unknown")
    with pytest.raises(ValueError, match="unknown"):
        needed_plugins("unknown")
