"""What the machines' /srv/lab-repo holds: the vendor's repository with real modules, and ordinary Debian packages."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.lab import toolkit
from tests.lab.debs import Deb, build
from tests.lab.driver import user_space
from tests.lab.engine import say
from tests.lab.images import base_image, downloaded
from tests.lab.paths import CACHE, KEYS, LAB, SIM, fingerprint
from tests.lab.repository import publish
from tests.vm import driver
from tests.vm.cached import filling
from tests.vm.kernel import BASE, kernels, packages, with_updates

#: What the product or a test may want, with what it needs beyond the base system. Those of the base system that the
#: machines lack are named one by one.
_ORDINARY = (
    "dkms gcc make xz-utils python3 unattended-upgrades lsb-release python3-apt python3-distro-info distro-info-data "
    "python-apt-common python3-dbus python3-gi libglib2.0-0 ucf gpg gpgconf curl mokutil pciutils psmisc hello tree"
)


def repository() -> Path:
    """Folder for /srv/lab-repo, built where the recipe has changed.

    Below ``nvidia``, suite debian12: component ``main`` with compiled modules for the kernel that boots (and, in a
    package of its own, for the newer), ``dkms`` with the same versions as sources, ``broken`` with a version whose
    sources don't compile. None of the modules is signed. Below ``debian``: headers of the booting kernel only, the
    newer kernel's image, dkms and a compiler.
    """
    here = Path(__file__).parent
    sources = [LAB / f"{name}.py" for name in ("debs", "driver", "repository", "toolkit")]
    sources += [here / f"{name}.py" for name in ("contents", "driver", "kernel", "modules_built")]
    debs = packages()
    recipe: list[str | Path] = [*sources, here / "modules", SIM / "driver", SIM / "toolkit", KEYS, base_image(BASE)]
    folder = CACHE / f"vm-repo-{fingerprint([*recipe, *(deb.name for deb in debs)])}"
    if folder.exists():
        return folder
    boots, newer = kernels()
    # The newer kernel comes without its headers, as on a host that nobody told to install them.
    ordinary = {deb.name: deb for deb in (*_ordinary(), *debs, *driver.nouveau(newer))}
    for deb in set(newer.headers) - set(boots.headers):
        del ordinary[deb.name]
    say("building the machines' repositories")
    with tempfile.TemporaryDirectory(prefix="vm-debs-", dir=CACHE) as name, filling(folder) as partial:
        made = Path(name)
        tools = _built((deb for version in toolkit.VERSIONS for deb in toolkit.toolkit_debs(version)), made / "tools")
        components: dict[str, list[Path]] = {"main": [*tools], "dkms": [*tools], "broken": []}
        for version in driver.VERSIONS:
            shared = _built(user_space(version, real=True), made / "shared")
            components["main"] += [*shared, *_built(driver.prebuilt_debs(version, boots, newer), made / "main")]
            components["dkms"] += [*shared, *_built(driver.dkms_debs(version), made / "dkms")]
        components["broken"] = _built(driver.broken_debs(), made / "broken")
        publish(partial / "nvidia", {"debian12": components}, origin="NVIDIA", label="NVIDIA CUDA")
        publish(partial / "debian", {"debian12": {"main": ordinary.values()}}, origin="Debian", label="Debian")
    return folder


def _built(debs: Iterable[Deb], folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    return [build(deb, folder) for deb in debs]


def _ordinary() -> list[Path]:
    script = (
        f"{with_updates()}apt-get update -q\n"
        f"apt-get install -q -y --no-install-recommends --reinstall --download-only {_ORDINARY}\n"
    )
    return downloaded("vm-ordinary", base_image(BASE), script)
