"""Drop-ins as each containerd major reads them: what they replace or merge, and where the edit then has to go."""

from __future__ import annotations

import pytest

from provisioner.containerd import Edit, Mode, Refusal, edit, imported_patterns, remove

from .seen import meaning

CRI = "io.containerd.grpc.v1.cri"
MAIN = f"""version = 2
imports = ["/etc/containerd/conf.d/*.toml"]
[plugins."{CRI}".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."{CRI}".containerd.runtimes.runc.options]
    SystemdCgroup = true
"""
DROP_IN = "/etc/containerd/conf.d/50-site.toml"
TOOLKIT = "/etc/containerd/conf.d/99-nvidia.toml"
DONE = f"""version = 2
[plugins."{CRI}".containerd]
  default_runtime_name = "nvidia"
  [plugins."{CRI}".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."{CRI}".containerd.runtimes.runc.options]
      SystemdCgroup = true
  [plugins."{CRI}".containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
    [plugins."{CRI}".containerd.runtimes.nvidia.options]
      BinaryName = "/usr/bin/nvidia-container-runtime"
      SystemdCgroup = true
"""


def run(main: str, imports: dict[str, str], release: str, mode: Mode = Mode.DEFAULT) -> Edit | Refusal:
    return edit(
        main.encode(),
        mode=mode,
        containerd=release,
        cgroup_driver="systemd",
        imports={path: text.encode() for path, text in imports.items()},
    )


@pytest.mark.parametrize("release", ["1.6.20", "1.7.24"])
def test_a_drop_in_with_a_cri_table_replaces_the_main_files_on_1(release: str) -> None:
    drop_in = f'version = 2\n[plugins."{CRI}"]\n  sandbox_image = "pause"\n'
    answer = run(MAIN, {DROP_IN: drop_in}, release)
    assert isinstance(answer, Refusal)
    assert DROP_IN in answer.reason
    assert DROP_IN in answer.remedy


def test_the_same_drop_in_is_merged_on_2() -> None:
    answer = run(MAIN, {DROP_IN: f'version = 2\n[plugins."{CRI}"]\n  sandbox_image = "pause"\n'}, "2.1.9")
    assert isinstance(answer, Edit)
    assert meaning(answer.result)["plugins"][CRI]["containerd"]["default_runtime_name"] == "nvidia"


@pytest.mark.parametrize("release", ["1.7.24", "2.1.9"])
def test_a_drop_in_that_does_it_all_leaves_nothing_to_do(release: str) -> None:
    answer = run(MAIN, {TOOLKIT: DONE}, release)
    assert isinstance(answer, Edit)
    assert not answer.changed


def test_a_drop_in_with_any_cri_table_defeats_a_main_file_that_is_right_on_1() -> None:
    main = DONE.replace("version = 2\n", 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n')
    drop_in = f'version = 2\n[plugins."{CRI}"]\n  sandbox_image = "pause"\n'
    assert isinstance(run(main, {DROP_IN: drop_in}, "1.7.24"), Refusal)
    answer = run(main, {DROP_IN: drop_in}, "2.1.9")
    assert isinstance(answer, Edit)
    assert not answer.changed


def test_a_drop_in_that_is_not_imported_does_not_count() -> None:
    answer = run(MAIN.replace("conf.d", "other.d"), {TOOLKIT: DONE}, "1.7.24")
    assert isinstance(answer, Edit)
    assert answer.changed


def test_a_drop_in_with_the_last_word_on_the_default_is_named() -> None:
    drop_in = f'version = 2\n[plugins."{CRI}".containerd]\n  default_runtime_name = "runc"\n'
    answer = run(MAIN, {DROP_IN: drop_in}, "2.1.9")
    assert isinstance(answer, Refusal)
    assert DROP_IN in answer.reason
    assert "default_runtime_name" in answer.reason


def test_the_settings_of_runc_are_taken_from_a_drop_in_on_2() -> None:
    main = 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
    runc = MAIN.replace('imports = ["/etc/containerd/conf.d/*.toml"]\n', "").replace("= true", "= false")
    answer = run(main, {DROP_IN: runc}, "2.1.9")
    assert isinstance(answer, Edit)
    runtimes = meaning(answer.result)["plugins"][CRI]["containerd"]["runtimes"]
    assert set(runtimes) == {"nvidia"}
    assert runtimes["nvidia"]["options"]["SystemdCgroup"] is False


@pytest.mark.parametrize("release", ["1.7.24", "2.1.9"])
def test_a_drop_in_that_switches_cri_off_is_named(release: str) -> None:
    answer = run(MAIN, {DROP_IN: f'version = 2\ndisabled_plugins = ["{CRI}"]\n'}, release)
    assert isinstance(answer, Refusal)
    assert DROP_IN in answer.reason
    assert "disabled_plugins" in answer.reason


def test_mixed_versions_are_refused() -> None:
    answer = run(MAIN, {DROP_IN: "version = 3\n"}, "2.1.9")
    assert isinstance(answer, Refusal)
    assert DROP_IN in answer.reason


def test_a_main_file_of_imports_alone_gets_the_version_of_its_drop_ins() -> None:
    answer = run('imports = ["/etc/containerd/conf.d/*.toml"]\n', {DROP_IN: "version = 3\n"}, "2.1.9")
    assert isinstance(answer, Edit)
    assert meaning(answer.result)["version"] == 3


def test_a_broken_drop_in_is_named() -> None:
    answer = run(MAIN, {DROP_IN: "version = = 2\n"}, "2.1.9")
    assert isinstance(answer, Refusal)
    assert DROP_IN in answer.reason


def test_the_later_of_several_drop_ins_wins() -> None:
    other = DONE.replace('default_runtime_name = "nvidia"', 'default_runtime_name = "runc"')
    assert isinstance(run(MAIN, {DROP_IN: DONE, TOOLKIT: other}, "1.7.24"), Refusal)
    answer = run(MAIN, {DROP_IN: other, TOOLKIT: DONE}, "1.7.24")
    assert isinstance(answer, Edit)
    assert not answer.changed


def test_a_drop_in_imported_by_a_drop_in_counts() -> None:
    outer = f'version = 2\nimports = ["{TOOLKIT}"]\n'
    main = MAIN.replace("*.toml", "50-site.toml")
    answer = run(main, {DROP_IN: outer, TOOLKIT: DONE}, "1.7.24")
    assert isinstance(answer, Edit)
    assert not answer.changed


def test_a_file_that_is_imported_by_name_and_missing_is_reported_on_1() -> None:
    main = MAIN.replace("conf.d/*.toml", "gpu.toml")
    for release, warned in (("1.7.24", True), ("2.1.9", False)):
        answer = run(main, {}, release)
        assert isinstance(answer, Edit)
        assert any("/etc/containerd/gpu.toml" in warning for warning in answer.warnings) is warned


def test_relative_globs_are_read_from_1_7_on() -> None:
    config = b'version = 2\nimports = ["conf.d/*.toml", "x.toml", "/a/../b.toml"]\n'
    path = "/etc/containerd/config.toml"
    new = ("/etc/containerd/conf.d/*.toml", "/etc/containerd/x.toml", "/b.toml")
    assert imported_patterns(config, path, "1.7.24") == new
    assert imported_patterns(config, path, "1.6.20") == new[1:]
    assert imported_patterns(b"imports = 3", path, "1.7.24") == ()
    assert imported_patterns(b"= ", path, "1.7.24") == ()


def test_removing_a_handler_that_a_drop_in_brings_is_refused_by_name() -> None:
    for release in ("1.7.24", "2.1.9"):
        answer = remove(MAIN.encode(), containerd=release, imports={TOOLKIT: DONE.encode()})
        assert isinstance(answer, Refusal)
        assert TOOLKIT in answer.reason + answer.remedy
