"""The driver as it lies on the host and as it is loaded, read without running any nvidia command.

Running `nvidia-smi` as root creates missing device nodes (NVIDIA/nvidia-container-toolkit#50), so nothing here does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioner.model.fact import Output, Probe

MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm")
"""The modules a driver package brings; all four must be on disk."""

NUMBER = re.compile(r"\d{3,4}\.\d{1,3}(?:\.\d{1,3})?")
"""A driver's upstream version: 535.216.03, 470.256.02, 440.100."""


@dataclass(frozen=True, slots=True)
class Module:
    """A kernel module. `version` as it says itself; `license` "NVIDIA" (proprietary) or "Dual MIT/GPL" (open);
    `signer` "" when unsigned; `path` of the file."""

    name: str
    version: str
    license: str = ""
    signer: str = ""
    path: str = ""

    @property
    def flavour(self) -> str:
        """ "open", "proprietary", or "" when the module doesn't say."""
        if not self.license:
            return ""
        return "proprietary" if self.license == "NVIDIA" else "open"


@dataclass(frozen=True)
class LoadedModules(Probe[Mapping[str, str]]):
    """NVIDIA modules that the kernel has loaded: name → version ("" where one doesn't say). Absent: none is.

    From /sys/module, since /proc/modules doesn't exist on a kernel without loadable modules.
    """

    @property
    def key(self) -> str:
        return "loaded nvidia modules"

    def script(self) -> str:
        return """\
[ -d /sys/module ] || unknown '/sys/module is not there'
n=0
for d in /sys/module/nvidia /sys/module/nvidia[-_]*; do
    [ -e "$d/refcnt" ] || [ -e "$d/initstate" ] || [ -e "$d/version" ] || continue
    n=1; v=; [ -r "$d/version" ] && read -r v <"$d/version"
    printf '%s %s\\n' "${d##*/}" "$v"
done
[ "$n" = 1 ] || absent
"""

    def parse(self, output: Output) -> Mapping[str, str]:
        rows = (line.partition(" ") for line in output.text.splitlines() if line)
        return {name: version.strip() for name, _, version in rows}


@dataclass(frozen=True, slots=True)
class ModulesOnDisk:
    """What modprobe would load on the running kernel. `headers`: the kernel's build folder is there; `dkms` the
    lines of `dkms status` about nvidia; `other_kernels` those that have an nvidia module."""

    kernel: str
    modules: Mapping[str, Module] = field(default_factory=dict)
    headers: bool = False
    dkms: tuple[str, ...] = ()
    other_kernels: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Modules of the driver that aren't there."""
        return tuple(name for name in MODULES if name not in self.modules)


@dataclass(frozen=True)
class ModulesOnDiskProbe(Probe[ModulesOnDisk]):
    """modinfo of the four modules for the running kernel; dkms status. Always known on a host with modinfo."""

    @property
    def key(self) -> str:
        return "nvidia modules on disk"

    def script(self) -> str:
        # Debian names its files nvidia-current*.ko and leads modprobe there by "install nvidia-uvm modprobe nvidia ;
        # modprobe -i nvidia-current-uvm": modinfo doesn't know the plain name then, modprobe does.
        return f"""\
command -v modinfo >/dev/null 2>&1 || unknown 'modinfo is not there (package kmod)'
k=$(uname -r); printf 'kernel %s\\n' "$k"
[ -e "/lib/modules/$k/build" ] && echo headers
for m in {" ".join(MODULES)}; do
    i=$(modinfo "$m" 2>/dev/null) || {{
        f=$(modprobe -n -q --show-depends "$m" 2>/dev/null | awk '
            $1 == "insmod" {{f = $2}}
            $1 == "install" {{for (i = 2; i < NF; i++) if ($i == "-i" || $i == "--ignore-install") f = $(i + 1)}}
            END {{print f}}')
        [ -n "$f" ] || continue
        i=$(modinfo "$f" 2>/dev/null)
    }}
    printf 'module: %s\\n%s\\n' "$m" "$i"
done | awk '
    BEGIN {{OFS = "\\t"}}
    function tell() {{if (m) print "module", m, a["version"], a["license"], a["signer"], a["filename"]}}
    $1 == "module:" {{tell(); split("", a); m = $2; next}}
    /^[a-z]+:/ {{k = substr($1, 1, length($1) - 1); if (k in a) next; sub(/^[a-z]+: */, ""); a[k] = $0}}
    END {{tell()}}'
command -v dkms >/dev/null 2>&1 && bounded 20 dkms status 2>/dev/null | sed -n '/nvidia/s/^/dkms /p'
for d in /lib/modules/*; do
    [ -d "$d" ] && [ "${{d##*/}}" != "$k" ] || continue
    [ -z "$(find "$d" -name 'nvidia*.ko*' 2>/dev/null | head -n 1)" ] || printf 'other %s\\n' "${{d##*/}}"
done
exit 0
"""

    def parse(self, output: Output) -> ModulesOnDisk:
        kernel, headers = "", False
        modules: dict[str, Module] = {}
        dkms: list[str] = []
        others: list[str] = []
        for line in output.text.splitlines():
            word, _, rest = line.partition(" ")
            if line.startswith("module\t"):
                name, version, license_, signer, path = line.split("\t")[1:6]
                modules[name] = Module(name, version, license_, signer, path)
            elif word == "kernel":
                kernel = rest
            elif word == "headers":
                headers = True
            elif word == "dkms":
                dkms.append(rest)
            elif word == "other":
                others.append(rest)
        return ModulesOnDisk(kernel, modules, headers, tuple(dkms), tuple(others))


@dataclass(frozen=True, slots=True)
class Library:
    """One file of a driver library. `version` from its file name ("" where that says none); `size` bytes;
    `linked` whether the dynamic loader's cache leads to it."""

    name: str
    path: str
    version: str
    size: int
    linked: bool


@dataclass(frozen=True)
class LibrariesProbe(Probe[tuple[Library, ...]]):
    """All copies of libnvidia-ml and libcuda: those of the loader's cache and others in the usual folders."""

    @property
    def key(self) -> str:
        return "driver libraries"

    def script(self) -> str:
        return r"""
l=/sbin/ldconfig; [ -x /sbin/ldconfig.real ] && l=/sbin/ldconfig.real
"$l" -p >/dev/null 2>&1 || unknown 'ldconfig -p fails'
{
    "$l" -p | awk '$1 ~ /^lib(nvidia-ml|cuda)\.so\.1$/ {print "linked " $NF}'
    for d in /usr/lib /usr/lib64 /usr/local/lib /usr/local/lib64; do
        [ -d "$d" ] && [ ! -L "$d" ] || continue
        find "$d" -maxdepth 4 \( -name 'libcuda.so.*.*' -o -name 'libnvidia-ml.so.*.*' \) ! -type l 2>/dev/null |
            sed 's/^/file /'
    done
} | while read -r how path; do
    r=$(readlink -f "$path") || continue
    [ -e "$r" ] || continue
    printf '%s %s %s\n' "$how" "$(stat -c %s "$r")" "$r"
done
"""

    def parse(self, output: Output) -> tuple[Library, ...]:
        found: dict[str, Library] = {}
        for line in output.text.splitlines():
            how, size, path = line.split(" ", 2)
            stem = path.rsplit("/", 1)[-1]
            version = NUMBER.search(stem)
            known = found.get(path)
            linked = how == "linked" or (known is not None and known.linked)
            found[path] = Library(stem.split(".so")[0], path, version[0] if version else "", int(size), linked)
        return tuple(sorted(found.values(), key=lambda library: library.path))


@dataclass(frozen=True, slots=True)
class Smi:
    """The nvidia-smi command. `package` and `version` of the package that owns it; for a file no package owns,
    `package` is "" and `version` what the file itself holds ("" where that can't be told)."""

    path: str
    package: str
    version: str


@dataclass(frozen=True)
class SmiProbe(Probe[Smi]):
    """Which nvidia-smi is installed, without running it; absent when there is none."""

    @property
    def key(self) -> str:
        return "nvidia-smi"

    def script(self) -> str:
        return r"""
p=$(command -v nvidia-smi) || absent
r=$(readlink -f "$p") || unknown "$p is a dangling link"
o=
if command -v dpkg-query >/dev/null 2>&1; then
    n=$(dpkg-query -S "$r" 2>/dev/null) || n=$(dpkg-query -S "/usr${r#/usr}" "${r#/usr}" 2>/dev/null)
    n=$(printf '%s\n' "$n" | sed -n 's/: .*//; s/,.*//; 1p')
    [ -z "$n" ] || o=$(dpkg-query -W -f '${Package} ${Version}\n' "$n" 2>/dev/null | head -n 1)
elif command -v rpm >/dev/null 2>&1; then
    o=$(rpm -qf --qf '%{NAME} %{VERSION}\n' "$r" 2>/dev/null) || o=
fi
[ -n "$o" ] || o="- $(grep -a -o '[0-9]\{3\}\.[0-9]\{2,3\}\(\.[0-9]\{2\}\)\?' "$r" 2>/dev/null | head -n 1)"
printf '%s\n%s\n' "$r" "$o"
"""

    def parse(self, output: Output) -> Smi:
        path, owner, *_ = output.text.splitlines()
        package, _, version = owner.partition(" ")
        number = NUMBER.search(version)
        return Smi(path, "" if package == "-" else package, number[0] if number else "")
