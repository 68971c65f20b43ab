"""The well-known variables: tables of the inventory that the shipped tasks read, their kinds and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.config.schema import ABSOLUTE, BOOLEAN, COUNT, SECONDS, WORD, WORDS, Kind, choice
from provisioner.config.when import FACTS
from provisioner.model.inventory import Level, Value


@dataclass(frozen=True, slots=True)
class Known:
    """A well-known variable; `default` None: absent unless someone sets it."""

    kind: Kind
    default: Any = None


def _dotted_numbers(parts: range, example: str) -> Kind:
    def fits(value: Any) -> bool:
        numbers = value.split(".") if isinstance(value, str) else []
        return len(numbers) in parts and all(number.isdecimal() and number.isascii() for number in numbers)

    return Kind(f'a version such as "{example}"', fits)


TABLES: Mapping[str, Mapping[str, Known]] = {
    "versions": {
        "driver": Known(_dotted_numbers(range(2, 4), "580.95.05")),
        "flavour": Known(choice("open", "proprietary")),
        "toolkit": Known(_dotted_numbers(range(3, 4), "1.18.0")),
    },
    "gpu": {
        "cards": Known(COUNT),
        "cuda_max": Known(_dotted_numbers(range(2, 3), "12.9")),
        "persistence": Known(BOOLEAN, True),
    },
    "driver": {
        "source": Known(choice("nvidia", "debian", "ubuntu"), "nvidia"),
        "packages": Known(WORDS),
        "modules": Known(choice("dkms", "prebuilt"), "dkms"),
    },
    "containerd": {
        "mode": Known(choice("default", "runtimeclass"), "default"),
        "install": Known(BOOLEAN, False),
        "cgroup_driver": Known(choice("systemd", "cgroupfs")),
        "config": Known(ABSOLUTE, "/etc/containerd/config.toml"),
        "enable_cdi": Known(BOOLEAN),
    },
    "toolkit": {
        "mode": Known(choice("auto", "legacy", "cdi", "csv", "jit-cdi")),
        "no_cgroups": Known(BOOLEAN),
        "accept_envvar_unprivileged": Known(BOOLEAN),
        "accept_volume_mounts": Known(BOOLEAN),
    },
    "selftest": {
        "enabled": Known(BOOLEAN, True),
        "deadline": Known(SECONDS, 90),
    },
    "upgrade": {
        "smoke_image": Known(WORD),
        "smoke_command": Known(WORDS),
    },
}
"""Table → key → what it may hold. The variable's name is TABLE.KEY."""

RESERVED = frozenset({*TABLES, *FACTS, "repositories", "host", "connection", "cluster"})
"""First parts of names that the site's own variables can't have; facts have theirs in conditions."""

KINDS: Mapping[str, Kind] = {
    f"{table}.{key}": known.kind for table, keys in TABLES.items() for key, known in keys.items()
}
"""Well-known variable → kind of its value."""

DEFAULTS: Mapping[str, Value] = {
    f"{table}.{key}": Value(known.default, Level.PLAYBOOK, "built-in default")
    for table, keys in TABLES.items()
    for key, known in keys.items()
    if known.default is not None
}
"""What holds where neither playbook nor inventory says anything."""
