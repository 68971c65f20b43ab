"""What /srv/lab-repo holds: the vendor's repository, and copies of ordinary and real Debian packages."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tests.lab import debian_real, driver, toolkit
from tests.lab.debs import Deb, build
from tests.lab.engine import say
from tests.lab.images import BASES, base_image, downloaded
from tests.lab.paths import CACHE, KEYS, LAB, SIM, fingerprint
from tests.lab.repository import publish, sign

#: Ordinary packages that the product or a test may want, with whatever they need beyond the base system.
_ORDINARY = "python3 python3-minimal pciutils kmod initramfs-tools unattended-upgrades gpg curl containerd runc psmisc"
#: Small ones, to be installed, held and changed by tests.
_SMALL = "hello tree"


def repository() -> Path:
    """Folder for /srv/lab-repo, built where the recipe has changed."""
    sources = [LAB / f"{name}.py" for name in ("contents", "debian_real", "debs", "driver", "repository", "toolkit")]
    recipe: list[str | Path] = [*sources, SIM / "driver", SIM / "toolkit", KEYS, os.uname().release]
    folder = CACHE / f"repo-{fingerprint([*recipe, *(base_image(name) for name in BASES)])}"
    if folder.exists():
        return folder
    ordinary = {name: _ordinary(name) for name in BASES}
    real = debian_real.packages()
    say("building the repositories")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="provision-lab-repo-", dir=CACHE) as name:
        made = Path(name)
        good = [deb for version in driver.VERSIONS for deb in driver.driver_debs(version)]
        good += [deb for version in toolkit.VERSIONS for deb in toolkit.toolkit_debs(version)]
        good += driver.transitional_debs()
        bad = list(driver.driver_debs(driver.BROKEN, broken=True))
        components = {"main": _built(good, made), "broken": _built(bad, made)}
        vendor = dict.fromkeys(BASES, components)
        publish(partial / "nvidia", vendor, origin="NVIDIA", label="NVIDIA CUDA")
        # The same packages under a signature of a key that nobody trusts.
        (partial / "nvidia-strange-key").mkdir()
        (partial / "nvidia-strange-key" / "pool").symlink_to("../nvidia/pool")
        shutil.copytree(partial / "nvidia" / "dists", partial / "nvidia-strange-key" / "dists")
        for suite in BASES:
            sign(partial / "nvidia-strange-key" / "dists" / suite, None)
        dkms = _built([driver.dkms_deb()], made)
        debian = {suite: {"main": [*debs, *dkms]} for suite, debs in ordinary.items()}
        publish(partial / "debian", debian, origin="Debian", label="Debian")
        if real:
            publish(partial / "debian-real", {"debian12": real}, origin="Debian", label="Debian real")
    partial.chmod(0o755)
    partial.rename(folder)
    return folder


def _built(debs: list[Deb], folder: Path) -> list[Path]:
    return [build(deb, folder) for deb in debs]


def _ordinary(name: str) -> list[Path]:
    script = (
        "apt-get update -q\n"
        f"apt-get install -q -y --no-install-recommends --reinstall --download-only {_ORDINARY} {_SMALL}\n"
    )
    return downloaded(name, base_image(name), script)
