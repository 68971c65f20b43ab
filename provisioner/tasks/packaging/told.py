"""What `provision facts` shows of driver and toolkit. Pure."""

from __future__ import annotations

from typing import Any

from provisioner.facts.driver import LibrariesProbe, LoadedModules, SmiProbe
from provisioner.facts.packages import PackagesProbe
from provisioner.model.fact import Facts, Known, Unknown
from provisioner.tasks.context import Context
from provisioner.tasks.packaging.names import STACK, TOOLKIT
from provisioner.tasks.packaging.versions import is_driver, upstream


def driver(facts: Facts, ctx: Context) -> dict[str, Any]:
    """The driver: installed (one version, or all of several), loaded, its libraries' and nvidia-smi's versions,
    whether its packages are held, and the version that is wanted."""
    packages, loaded, libraries, smi = (
        facts.fact(probe) for probe in (PackagesProbe(), LoadedModules(), LibrariesProbe(), SmiProbe())
    )
    told: dict[str, Any] = {"wanted": ctx.var("versions.driver")}
    if isinstance(packages, Known):
        own = {
            name: upstream(package.version)
            for name, package in packages.value.packages.items()
            if package.installed and name not in TOOLKIT and STACK.fullmatch(name) and is_driver(package.version)
        }
        told["installed"] = one_of(own.values())
        told["held"] = bool(own) and packages.value.holds >= own.keys()
    else:
        told["installed"] = unreadable(packages)
    told["loaded"] = loaded.value.get("nvidia") if isinstance(loaded, Known) else unreadable(loaded)
    told["libraries"] = (
        one_of(library.version for library in libraries.value if library.linked)
        if isinstance(libraries, Known)
        else unreadable(libraries)
    )
    told["nvidia_smi"] = smi.value.version if isinstance(smi, Known) else unreadable(smi)
    return told


def toolkit(facts: Facts, ctx: Context) -> dict[str, Any]:
    """The toolkit's four packages: installed version (all of several), held, wanted."""
    packages = facts.fact(PackagesProbe())
    told: dict[str, Any] = {"wanted": ctx.var("versions.toolkit")}
    if isinstance(packages, Known):
        have = [version for name in TOOLKIT if (version := packages.value.version(name)) is not None]
        told["installed"] = one_of(upstream(version) for version in have)
        told["held"] = len(have) == len(TOOLKIT) and packages.value.holds >= set(TOOLKIT)
    else:
        told["installed"] = unreadable(packages)
    return told


def one_of(versions: Any) -> Any:
    """The one version, None for none, the sorted list of several: a mixture is seen at once."""
    found = sorted(set(versions))
    return found[0] if len(found) == 1 else (found or None)


def unreadable(fact: object) -> dict[str, str] | None:
    """None for what is absent, the reason for what couldn't be read."""
    return {"unknown": fact.reason} if isinstance(fact, Unknown) else None
