"""The toolkit's own configuration edited in place, and the driver version that a CDI specification names."""

from __future__ import annotations

import tomllib

import pytest

from provisioner.containerd import Edit, Refusal, cdi_driver_version, edit_toolkit, ldconfig

SHIPPED = b"""#accept-nvidia-visible-devices-as-volume-mounts = false
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"

[nvidia-container-cli]
#debug = "/var/log/nvidia-container-toolkit.log"
environment = []
ldconfig = "@/sbin/ldconfig.real"
load-kmods = true
#no-cgroups = false

[nvidia-container-runtime]
log-level = "info"
mode = "auto"  # found out
runtimes = ["runc", "crun"]

[nvidia-container-runtime.modes]

[nvidia-container-runtime.modes.cdi]
annotation-prefixes = ["cdi.k8s.io/"]
"""


def done(data: bytes, **wanted: object) -> Edit:
    answer = edit_toolkit(data, ldconfig="@/sbin/ldconfig", **wanted)  # type: ignore[arg-type]
    assert isinstance(answer, Edit), answer
    again = edit_toolkit(answer.result, ldconfig="@/sbin/ldconfig", **wanted)  # type: ignore[arg-type]
    assert isinstance(again, Edit)
    assert not again.changed
    return answer


def test_ldconfig_by_distribution() -> None:
    assert ldconfig("ubuntu") == "@/sbin/ldconfig.real"
    assert {ldconfig(name) for name in ("debian", "rhel", "rocky", "almalinux")} == {"@/sbin/ldconfig"}


def test_only_the_lines_in_question_change() -> None:
    answer = done(SHIPPED, mode="cdi", no_cgroups=False, accept_envvar_unprivileged=False, accept_volume_mounts=True)
    before, after = SHIPPED.decode().splitlines(), answer.result.decode().splitlines()
    assert [line for line in before if line not in after] == [
        'ldconfig = "@/sbin/ldconfig.real"',
        'mode = "auto"  # found out',
    ]
    assert [line for line in after if line not in before] == [
        "accept-nvidia-visible-devices-envvar-when-unprivileged = false",
        "accept-nvidia-visible-devices-as-volume-mounts = true",
        'ldconfig = "@/sbin/ldconfig"',
        "no-cgroups = false",
        'mode = "cdi"  # found out',
    ]
    assert tomllib.loads(answer.result.decode())["nvidia-container-cli"]["no-cgroups"] is False
    assert len(answer.notes) == 5


def test_settings_not_asked_for_stay() -> None:
    assert done(SHIPPED).result == SHIPPED.replace(b"ldconfig.real", b"ldconfig")
    right = SHIPPED.replace(b"ldconfig.real", b"ldconfig")
    assert not done(right).changed


def test_a_missing_file_gets_what_was_asked_for_only() -> None:
    assert tomllib.loads(done(b"", mode="legacy").result.decode()) == {
        "nvidia-container-cli": {"ldconfig": "@/sbin/ldconfig"},
        "nvidia-container-runtime": {"mode": "legacy"},
    }


@pytest.mark.parametrize("data", [b"nvidia-container-cli = 3\n", b"\xff", b"a = = 1\n"])
def test_a_file_that_cannot_be_edited(data: bytes) -> None:
    assert isinstance(edit_toolkit(data, ldconfig="@/sbin/ldconfig"), Refusal)


def test_a_mode_the_toolkit_does_not_know() -> None:
    assert isinstance(edit_toolkit(SHIPPED, ldconfig="@/sbin/ldconfig", mode="fast"), Refusal)


SPEC = """cdiVersion: 0.5.0
containerEdits:
  hooks:
  - args: [nvidia-cdi-hook, create-symlinks, --link, "libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so"]
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05
  - containerPath: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05
    hostPath: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05
"""


def test_the_driver_version_of_a_specification() -> None:
    assert cdi_driver_version(SPEC.encode()) == "580.95.05"
    assert cdi_driver_version(b'{"hostPath":"/usr/lib64/libcuda.so.570.172"}') == "570.172"
    assert cdi_driver_version(b"hostPath: /usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1\n") is None
    assert cdi_driver_version(SPEC.replace("libnvidia-ml.so.580.95.05", "libnvidia-ml.so.570.1").encode()) is None
    assert cdi_driver_version(b"") is None
