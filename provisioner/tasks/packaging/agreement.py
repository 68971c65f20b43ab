"""Do the kernel modules, libraries and nvidia-smi on a host belong to one driver version?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provisioner.facts.driver import Library, ModulesOnDisk, Smi
from provisioner.model.action import Run
from provisioner.model.change import Change, Finding, Kind, Refusal
from provisioner.quoting import quote


def module_findings(disk: ModulesOnDisk, driver: str, flavour: str) -> Iterator[Finding]:
    """What is wrong with the modules on disk for the running kernel."""
    status = "; ".join(disk.dkms) or "dkms knows no nvidia module"
    if disk.missing:
        why = f"there is no {', '.join(disk.missing)} for the running kernel {disk.kernel} ({status}"
        why += f"; there is one for {', '.join(disk.other_kernels)})" if disk.other_kernels else ")"
        if disk.headers and any(": installed" not in line for line in disk.dkms):
            yield Change(
                subject="module build",
                summary=f"build the modules for kernel {disk.kernel}",
                kind=Kind.RUN,
                actions=(
                    Run(build_script(disk.kernel), f"build the nvidia modules for {disk.kernel}", timeout=1800.0),
                ),
                notes=(why,),
            )
            return
        remedy = (
            "see /var/lib/dkms/nvidia*/*/build/make.log"
            if disk.headers
            else (
                f"install the headers of kernel {disk.kernel} (linux-headers-{disk.kernel}), or restart the host into "
                "a kernel that has them"
            )
        )
        yield Refusal("modules", f"driver {driver} is installed, but its kernel module isn't there", why, remedy)
        return
    other = [module for module in disk.modules.values() if module.version and module.version != driver]
    if other:
        yield Refusal(
            "modules",
            f"driver {driver} is installed, but the module on disk is of another version",
            ", ".join(f"{module.name} {module.version} ({module.path})" for module in other) + f"; {status}",
            "remove the file that no package owns (`dkms remove`, or `nvidia-uninstall` of a .run installation)",
        )
    wrong = [module for module in disk.modules.values() if module.flavour and module.flavour != flavour]
    if wrong:
        yield Refusal(
            "modules",
            f"the inventory wants the {flavour} module, the one on disk is {wrong[0].flavour}",
            ", ".join(f"{module.path}: license {module.license}" for module in wrong),
            "remove the packages of the other flavour, then apply again",
        )


def build_script(kernel: str) -> str:
    """Build what dkms knows for one kernel; on failure the end of the compiler's log."""
    return f"""\
dkms autoinstall -k {quote(kernel)} || {{
    for f in /var/lib/dkms/nvidia*/*/build/make.log; do [ -r "$f" ] && tail -n 15 "$f"; done
    exit 1
}}
depmod {quote(kernel)}
"""


def disagreements(libraries: Sequence[Library], smi: Smi | None, driver: str) -> Iterator[Refusal]:
    """Libraries and nvidia-smi that aren't of the installed driver."""
    for name in ("libnvidia-ml", "libcuda"):
        copies = [library for library in libraries if library.name == name]
        if not any(library.linked for library in copies):
            yield Refusal(
                name,
                f"driver {driver} is installed, but the loader finds no {name}.so.1",
                f"on the host: {', '.join(library.path for library in copies) or 'no copy at all'}",
                "run ldconfig on the host; if it stays so, install the package again",
            )
    bad = [library for library in libraries if library.size == 0 or library.version not in ("", driver)]
    if bad:
        yield Refusal(
            "libraries",
            f"driver {driver} is installed, but libraries of another version lie on the host",
            ", ".join(f"{library.path}{' (empty)' if library.size == 0 else ''}" for library in bad),
            "remove what no package owns (`nvidia-uninstall` of a .run installation), then run ldconfig",
        )
    if smi is None:
        yield Refusal(
            "nvidia-smi",
            f"driver {driver} is installed, but there is no nvidia-smi",
            "",
            "install the package that holds it: name it in driver.packages and run `provision lock`",
        )
    elif smi.version not in ("", driver):
        yield Refusal(
            "nvidia-smi",
            f"driver {driver} is installed, but nvidia-smi is of {smi.version}",
            f"{smi.path} belongs to {smi.package or 'no package'}",
            "remove the other driver's package or .run installation",
        )
