"""Kernel modules by name: loaded, built in, on disk."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe
from provisioner.quoting import words


@dataclass(frozen=True, slots=True)
class KernelModules:
    """Of the modules asked for (names with underscores): those `loaded` or built into the kernel, and those
    `available` on disk for the running kernel."""

    loaded: frozenset[str] = frozenset()
    available: frozenset[str] = frozenset()


@dataclass(frozen=True)
class KernelModulesProbe(Probe[KernelModules]):
    """From /sys/module, since /proc/modules doesn't exist on a kernel without loadable modules, and modinfo."""

    names: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"kernel modules {', '.join(self.names)}"

    def script(self) -> str:
        return f"""\
[ -d /sys/module ] || unknown '/sys/module is not there'
b=/lib/modules/$(uname -r)/modules.builtin
for m in {words(name.replace("-", "_") for name in self.names)}; do
    if [ -d "/sys/module/$m" ] || sed 's/.*\\///; s/\\.ko.*//; s/-/_/g' "$b" 2>/dev/null | grep -qxF "$m"; then
        printf 'loaded %s\\n' "$m"
    elif modinfo "$m" >/dev/null 2>&1; then printf 'available %s\\n' "$m"
    fi
done
"""

    def parse(self, output: Output) -> KernelModules:
        pairs = [line.split() for line in output.text.splitlines()]
        return KernelModules(
            loaded=frozenset(name for word, name in pairs if word == "loaded"),
            available=frozenset(name for word, name in pairs if word == "available"),
        )
