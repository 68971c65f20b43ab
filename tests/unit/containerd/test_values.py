"""What the nvidia handler is made of, what is repaired in one that is there, and what is said about it."""

from __future__ import annotations

import pytest

from provisioner.containerd import Edit, Mode, Refusal, edit, remove

from .seen import BINARY, case, meaning, seen

CRI = "io.containerd.grpc.v1.cri"


def done(data: bytes, release: str = "1.7.24", mode: Mode = Mode.RUNTIMECLASS, driver: str | None = "systemd") -> Edit:
    answer = edit(data, mode=mode, containerd=release, cgroup_driver=driver)  # type: ignore[arg-type]
    assert isinstance(answer, Edit), answer
    return answer


def handler(data: bytes, name: str = "nvidia", plugin: str = CRI) -> dict[str, object]:
    table = meaning(data)["plugins"][plugin]["containerd"]["runtimes"][name]
    assert isinstance(table, dict)
    return table


def test_a_new_handler_takes_the_settings_of_runc_but_not_its_program() -> None:
    nvidia = handler(done(case("cgroupfs")).result)
    assert nvidia["options"] == {"BinaryName": BINARY, "NoPivotRoot": True, "SystemdCgroup": False}


def test_a_new_handler_takes_the_annotations_of_a_runc_compatible_default() -> None:
    assert handler(done(case("crun-default")).result)["pod_annotations"] == ["run.oci.handler"]


def test_gvisor_as_default_does_not_make_nvidia_a_runsc_handler() -> None:
    answer = done(case("runsc-default"), mode=Mode.DEFAULT)
    assert handler(answer.result)["runtime_type"] == "io.containerd.runc.v2"
    assert any("runsc" in warning for warning in answer.warnings)


def test_privileged_pods_get_all_devices_and_the_plugin_still_loads() -> None:
    nvidia = handler(done(case("privileged-runc")).result)
    assert nvidia["privileged_without_host_devices"] is False
    assert nvidia["privileged_without_host_devices_all_devices_allowed"] is False


def test_the_users_keys_in_an_old_handler_stay_and_what_keeps_cri_down_goes() -> None:
    nvidia = handler(done(case("nvidia-old")).result)
    assert nvidia["pod_annotations"] == ["mine/*"]
    assert nvidia["runtime_type"] == "io.containerd.runc.v2"
    assert nvidia["runtime_engine"] == ""


def test_a_string_becomes_a_boolean_in_the_handler_and_is_reported_in_runc() -> None:
    nvidia = handler(done(case("nvidia-foreign")).result)
    assert nvidia["options"] == {"BinaryName": BINARY, "SystemdCgroup": True}
    answer = done(case("runc-string-cgroup"))
    assert handler(answer.result)["options"] == {"BinaryName": BINARY, "SystemdCgroup": True}
    assert any("'true'" in warning for warning in answer.warnings)


def test_runc_without_the_setting_is_followed_with_a_warning_under_a_systemd_kubelet() -> None:
    answer = done(case("runc-without-cgroup"))
    assert "SystemdCgroup" not in handler(answer.result)["options"]  # type: ignore[operator]
    assert any("systemd" in warning for warning in answer.warnings)
    assert not done(case("runc-without-cgroup"), driver="cgroupfs").warnings


def test_without_any_source_for_the_cgroup_setting_the_editor_stops() -> None:
    answer = edit(case("debian-stock"), mode=Mode.DEFAULT, containerd="1.7.24", cgroup_driver=None)
    assert isinstance(answer, Refusal)
    assert "cgroup" in answer.reason
    assert done(case("kubeadm-systemd"), driver=None).changed
    assert not done(case("already-done"), mode=Mode.DEFAULT, driver=None).changed


def test_the_cgroupfs_driver_is_written_out() -> None:
    answer = done(b"", driver="cgroupfs")
    assert seen(answer.result, "1.6.20") == ("default=runc nvidia[runc.v2 sd=False NCR] runc[runc.v2 sd=False -]")


@pytest.mark.parametrize(
    ("release", "data", "wanted", "expected"),
    [
        ("1.7.24", "", True, True),
        ("1.7.24", "", False, None),
        ("2.1.9", "", True, None),
        ("2.1.9", "", False, False),
        ("1.6.20", "", False, None),
        ("1.7.24", f'version = 2\n[plugins."{CRI}"]\nenable_cdi = false # no\n', True, True),
        ("1.7.24", f'version = 2\n[plugins."{CRI}"]\nenable_cdi = true\n', None, True),
    ],
)
def test_cdi_is_switched_where_the_containerd_has_it(
    release: str, data: str, wanted: bool | None, expected: bool | None
) -> None:
    answer = edit(data.encode(), mode=Mode.RUNTIMECLASS, containerd=release, cgroup_driver="systemd", enable_cdi=wanted)
    assert isinstance(answer, Edit)
    assert meaning(answer.result)["plugins"][CRI].get("enable_cdi") == expected


def test_cdi_on_a_containerd_without_it_is_refused() -> None:
    answer = edit(b"", mode=Mode.DEFAULT, containerd="1.6.20", cgroup_driver="systemd", enable_cdi=True)
    assert isinstance(answer, Refusal)
    assert "1.7" in answer.reason


def test_the_diff_of_the_common_file_is_one_line_and_one_block() -> None:
    data = case("kubeadm-systemd").decode()
    expected = data.replace(
        '    default_runtime_name = "runc" # default\n',
        '    # provision: default_runtime_name was "runc"\n    default_runtime_name = "nvidia" # default\n',
    )
    expected += f"""
[plugins."{CRI}".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
  [plugins."{CRI}".containerd.runtimes.nvidia.options]
    BinaryName = "{BINARY}"
    SystemdCgroup = true
"""
    assert done(data.encode(), mode=Mode.DEFAULT).result.decode() == expected


def test_a_version_1_file_on_containerd_2_is_converted_in_place() -> None:
    result = done(case("version-1-plain"), "2.1.9").result.decode()
    assert result.startswith('# from the days of 1.2\nversion = 2\noom_score = 0\n[plugins]\n  [plugins."' + CRI)
    assert '[plugins."io.containerd.internal.v1.opt"]' in result
    explicit = meaning(done(case("version-1-explicit"), "2.1.9").result)
    assert explicit["disabled_plugins"] == ["io.containerd.snapshotter.v1.aufs"]
    assert explicit["version"] == 2


def test_a_new_version_does_not_part_a_comment_from_its_key() -> None:
    data = b"# the node's file\n\n# big disk\nroot = '/data'\n"
    assert done(data).result.startswith(b"# the node's file\n\nversion = 2\n# big disk\nroot = '/data'\n")


def test_a_version_below_a_header_moves_to_the_top() -> None:
    result = done(case("version-below-header")).result.decode()
    assert result.startswith("version = 2 # too late\n")
    assert "version" not in meaning(done(case("version-below-plugins")).result)["plugins"]


def test_version_4_is_read_by_a_containerd_that_has_it() -> None:
    result = done(case("version-4"), "2.3.0").result
    assert "nvidia" in meaning(result)["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]


def test_the_byte_order_mark_stays_for_1_and_goes_for_2_which_does_not_start_with_it() -> None:
    assert done(case("byte-order-mark")).result.startswith(b"\xef\xbb\xbf# saved")
    assert done(case("byte-order-mark"), "2.1.9").result.startswith(b"# saved")


def test_dead_tables_are_left_and_reported() -> None:
    answer = done(case("wrong-path-v3"), "2.1.9")
    assert case("wrong-path-v3") in answer.result
    assert any(CRI in warning for warning in answer.warnings)


def test_a_missing_default_is_repaired_or_refused() -> None:
    base = f'version = 2\n[plugins."{CRI}".containerd]\ndefault_runtime_name = "%s"\n'
    runc = f'[plugins."{CRI}".containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'
    gone = (base % "nvidia-experimental" + runc).encode()
    assert seen(done(gone).result, "1.7.24").startswith("default=runc ")
    foreign = (base % "crun" + runc).encode()
    answer = edit(foreign, mode=Mode.RUNTIMECLASS, containerd="1.7.24", cgroup_driver="systemd")
    assert isinstance(answer, Refusal)
    assert "crun" in answer.reason
    assert seen(done(foreign, mode=Mode.DEFAULT).result, "1.7.24").startswith("default=nvidia ")


def test_an_empty_default_keeps_cri_down_and_is_repaired() -> None:
    data = f'version = 2\n[plugins."{CRI}".containerd]\ndefault_runtime_name = ""\n'.encode()
    assert meaning(done(data).result)["plugins"][CRI]["containerd"]["default_runtime_name"] == "runc"
    assert (
        meaning(done(data, mode=Mode.DEFAULT).result)["plugins"][CRI]["containerd"]["default_runtime_name"] == "nvidia"
    )


def test_bytes_that_only_containerd_1_reads_stay() -> None:
    data = b"version = 2 # f\xfcr immer\n"
    assert done(data).result.startswith(data)
    assert isinstance(edit(data, mode=Mode.DEFAULT, containerd="2.1.9", cgroup_driver="systemd"), Refusal)


def test_a_runc_that_is_nvidias_is_reported() -> None:
    data = f"""version = 2
[plugins."{CRI}".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
options = {{ BinaryName = "/usr/bin/nvidia-container-runtime", SystemdCgroup = true }}
""".encode()
    assert any("passes through" in warning for warning in done(data).warnings)


def test_remove_keeps_an_added_runc_that_was_changed_since() -> None:
    data = done(case("empty")).result.replace(
        b"SystemdCgroup = true", b"SystemdCgroup = true\n    NoPivotRoot = true", 1
    )
    undone = remove(data, containerd="1.7.24")
    assert isinstance(undone, Edit)
    assert handler(undone.result, "runc")["options"] == {"SystemdCgroup": True, "NoPivotRoot": True}


def test_remove_gives_back_a_runc_where_others_would_leave_containerd_1_without() -> None:
    data = f"""version = 2
[plugins."{CRI}".containerd.runtimes.kata]
runtime_type = "io.containerd.kata.v2"
[plugins."{CRI}".containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
options = {{ BinaryName = "{BINARY}", SystemdCgroup = true }}
[plugins."{CRI}".containerd]
default_runtime_name = "nvidia"
""".encode()
    undone = remove(data, containerd="1.7.24")
    assert isinstance(undone, Edit)
    assert seen(undone.result, "1.7.24") == "default=runc kata[kata.v2 sd=- -] runc[runc.v2 sd=True -]"
