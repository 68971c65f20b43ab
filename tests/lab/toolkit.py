"""The container toolkit's packages: four that want equal versions."""

from __future__ import annotations

from collections.abc import Iterator

from tests.lab.debs import Deb, File
from tests.lab.driver import empty_library
from tests.lab.paths import SIM

VERSIONS = ("1.17.8", "1.18.0")

_CONFIG = "/etc/nvidia-container-runtime/config.toml"
_REFRESH = """\
if [ "$1" = configure ]; then
    deb-systemd-helper enable nvidia-cdi-refresh.path nvidia-cdi-refresh.service >/dev/null || true
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload >/dev/null || true
        deb-systemd-invoke start nvidia-cdi-refresh.path nvidia-cdi-refresh.service >/dev/null || true
    fi
fi
"""


def toolkit_debs(version: str) -> Iterator[Deb]:
    """All packages of one toolkit version."""
    full = f"{version}-1"
    yield Deb(
        "nvidia-container-toolkit",
        full,
        section="utils",
        depends=f"nvidia-container-toolkit-base (= {full}), libnvidia-container-tools (>= {full}), "
        "libnvidia-container-tools (<< 2.0.0)",
        files={
            "/usr/bin/nvidia-container-runtime-hook": _file("nvidia-container-runtime-hook", version, 0o755),
            "/usr/bin/nvidia-container-toolkit": File(b"", link="nvidia-container-runtime-hook"),
        },
    )
    config = _file("config.toml", version).content
    if version == "1.17.8":
        # What the newer release added to its configuration file.
        config = config.replace(b'\n[nvidia-container-runtime.modes.legacy]\ncuda-compat-mode = "ldconfig"\n', b"")
    base = {
        "/usr/bin/nvidia-ctk": _file("nvidia-ctk", version, 0o755),
        "/usr/bin/nvidia-container-runtime": _file("nvidia-container-runtime", version, 0o755),
        "/usr/bin/nvidia-cdi-hook": _file("nvidia-container-runtime-hook", version, 0o755),
        _CONFIG: File(config),
    }
    scripts = {}
    if version != "1.17.8":  # units that keep the CDI specification fresh came with 1.18
        for unit in ("nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path"):
            base[f"/usr/lib/systemd/system/{unit}"] = _file(unit, version)
        scripts["postinst"] = _REFRESH
    yield Deb("nvidia-container-toolkit-base", full, section="utils", files=base, scripts=scripts, conffiles=(_CONFIG,))
    yield Deb(
        "libnvidia-container-tools",
        full,
        section="utils",
        depends=f"libnvidia-container1 (>= {full})",
        files={"/usr/bin/nvidia-container-cli": _file("nvidia-container-cli", version, 0o755)},
    )
    library = f"/usr/lib/x86_64-linux-gnu/libnvidia-container.so.{version}"
    yield Deb(
        "libnvidia-container1",
        full,
        section="libs",
        depends="libc6",
        files={library: empty_library("libnvidia-container.so.1")},
    )


def _file(name: str, version: str, mode: int = 0o644) -> File:
    return File((SIM / "toolkit" / name).read_text().replace("@VERSION@", version).encode(), mode)
