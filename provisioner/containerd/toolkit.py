"""The NVIDIA container toolkit's own `/etc/nvidia-container-runtime/config.toml`.

`ldconfig` names the host's program that refreshes the library cache inside a container; the `@`
says that the path is the host's. On Ubuntu `/sbin/ldconfig` is a wrapper script and the program is
`/sbin/ldconfig.real`; Debian, RHEL and their kin have only `/sbin/ldconfig`. The wrong one ends in
"ldcache error: process /sbin/ldconfig.real failed" (nvidia-docker#1616, #587). The toolkit decides
in the same way: `NormalizeLDConfigPath` in internal/config of nvidia-container-toolkit.
"""

from __future__ import annotations

from provisioner.containerd.document import Document, at
from provisioner.containerd.result import Edit, Refusal, Refused
from provisioner.containerd.syntax import Path

TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
MODES = ("auto", "legacy", "cdi", "csv", "jit-cdi")

_LDCONFIG: Path = ("nvidia-container-cli", "ldconfig")
_NO_CGROUPS: Path = ("nvidia-container-cli", "no-cgroups")
_MODE: Path = ("nvidia-container-runtime", "mode")
_ENVVAR: Path = ("accept-nvidia-visible-devices-envvar-when-unprivileged",)
_VOLUME_MOUNTS: Path = ("accept-nvidia-visible-devices-as-volume-mounts",)


def ldconfig(distribution: str) -> str:
    """The right `ldconfig` value for a distribution, by the `ID` of its os-release."""
    return "@/sbin/ldconfig.real" if distribution == "ubuntu" else "@/sbin/ldconfig"


def edit_toolkit(
    config: bytes,
    *,
    ldconfig: str,
    mode: str | None = None,
    no_cgroups: bool | None = None,
    accept_envvar_unprivileged: bool | None = None,
    accept_volume_mounts: bool | None = None,
    path: str = TOOLKIT_CONFIG,
) -> Edit | Refusal:
    """The toolkit's file with these settings; None leaves one as it is. Everything else stays byte for byte."""
    wanted: list[tuple[Path, str | bool | None]] = [
        (_ENVVAR, accept_envvar_unprivileged),
        (_VOLUME_MOUNTS, accept_volume_mounts),
        (_LDCONFIG, ldconfig),
        (_NO_CGROUPS, no_cgroups),
        (_MODE, mode),
    ]
    try:
        return _edit(config, wanted, path)
    except Refused as refused:
        return refused.refusal
    except RecursionError:
        return Refusal(f"{path} is nested too deeply.", "Check that this is the toolkit's file.")


def _edit(config: bytes, wanted: list[tuple[Path, str | bool | None]], path: str) -> Edit:
    document = Document.parse(config, path)
    notes = []
    for key, value in wanted:
        if value is None:
            continue
        if key == _MODE and value not in MODES:
            raise Refused(f"The toolkit knows no mode {value!r}.", f"Choose one of {', '.join(MODES)}.")
        for depth in range(1, len(key)):
            if not isinstance(at(document.meaning, key[:depth]) or {}, dict):
                raise Refused(f"{key[0]} is not a table in {path}.", "Correct that entry by hand.")
        old = at(document.meaning, key)
        changed = document.set(key, value)
        if changed is not document:
            said = "unset" if old is None else repr(old)
            notes.append(f"{'.'.join(key)} is {value!r}; it was {said}.")
        document = changed
    result = document.encode()
    return Edit(result, tuple(notes) or ("Nothing to change.",), (), result != config)
