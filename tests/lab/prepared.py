"""Images that need more than a plain host: one prepared by hand before, one with containerd from sid."""

from __future__ import annotations

from pathlib import Path

from tests.lab.engine import docker, image_exists, say
from tests.lab.images import base_image, downloaded, host_image
from tests.lab.mirror import debian_mirror, suite_exists
from tests.lab.paths import SIM, fingerprint

#: The driver that someone installed by hand on the prepared host.
OLD_DRIVER = "570.158.01"


def prepared_image(repository: Path) -> str:
    """Debian 12 with another driver version, site files and holds; ``repository`` is for /srv/lab-repo."""
    plain = host_image("debian12")
    tag = f"provision-lab:prepared-{fingerprint([plain, repository.name, SIM / 'prepared', OLD_DRIVER])}"
    if not image_exists(tag):
        say("building the image of the host that was prepared by hand")
        _layer(
            tag,
            plain,
            f"export OLD_DRIVER={OLD_DRIVER}\nsh -eu /prepared/setup.sh\n",
            {
                str(SIM / "prepared"): "/prepared",
                str(repository): "/srv/lab-repo",
            },
        )
    return tag


def sid_image() -> str:
    """Debian 13 with containerd 2 from sid; its own containerd, and the reason printed, where the mirror has no sid."""
    plain = host_image("debian13")
    if not suite_exists("sid"):
        say("the mirror has no sid: gpu-e runs Debian 13's own containerd")
        return plain
    mirror = debian_mirror()
    debs = downloaded(
        "containerd-sid",
        base_image("debian13"),
        (
            f"echo 'deb {mirror} sid main' >/etc/apt/sources.list.d/sid.list\n"
            "printf 'Package: *\\nPin: release n=sid\\nPin-Priority: 100\\n' >/etc/apt/preferences.d/sid\n"
            "apt-get update -q\n"
            "apt-get install -q -y --no-install-recommends --download-only containerd/sid\n"
        ),
    )
    tag = f"provision-lab:sid-{fingerprint([plain, *(deb.name for deb in debs)])}"
    if not image_exists(tag):
        say("building the image of the host with containerd from sid")
        script = "dpkg -i --force-confnew /debs/*.deb >/tmp/log 2>&1 || { tail /tmp/log; exit 1; }\n"
        _layer(tag, plain, script, {str(debs[0].parent): "/debs"})
    return tag


def _layer(tag: str, image: str, script: str, folders: dict[str, str]) -> None:
    """A new image: ``script`` run in a container of ``image`` that has ``folders`` mounted."""
    mounts = [part for source, target in folders.items() for part in ("-v", f"{source}:{target}:ro")]
    name = f"provision-lab-build-{tag.rpartition(':')[2]}"
    if docker("ps", "-aq", "--filter", f"name=^{name}$").strip():
        docker("rm", "-f", name)
    try:
        docker("run", "-i", "--name", name, *mounts, image, "sh", "-eu", data=script.encode(), timeout=600)
        docker("commit", "-c", 'CMD ["/lib/systemd/systemd"]', name, tag)
    finally:
        docker("rm", "-f", "-v", name)
