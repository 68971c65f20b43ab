"""Images of the lab's hosts: base systems, and the hosts made of them."""

from __future__ import annotations

import os
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from shutil import copy2, copytree

from tests.lab.engine import LabError, docker, image_exists, root, run, say
from tests.lab.mirror import apt_options, debian_mirror
from tests.lab.paths import CACHE, KEYS, SIM, fingerprint

_BASIC = (
    "systemd,systemd-sysv,dbus,openssh-server,sudo,iproute2,kmod,procps,ca-certificates,containerd,initramfs-tools,zstd"
)


@dataclass(frozen=True)
class Base:
    """A Debian release as the lab installs it. ``suite`` is the lab repositories' name for it."""

    suite: str
    codename: str
    packages: str


BASES = {
    "debian12": Base("debian12", "bookworm", f"{_BASIC},python3,unattended-upgrades"),
    # Without python3: the product must see to one.
    "debian13": Base("debian13", "trixie", _BASIC),
}


def base_image(name: str) -> str:
    """Tag of the base image, built with mmdebstrap from this machine's mirror where it is missing."""
    base = BASES[name]
    tag = f"provision-lab-base:{name}-{fingerprint([repr(base), 'v1'])}"
    if image_exists(tag):
        return tag
    tar = CACHE / f"{tag.replace(':', '-')}.tar"
    if not tar.exists():
        say(f"building {name} from the Debian mirror (about a minute)")
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = tar.with_suffix(".partial.tar")
        options = [f"--aptopt={line}" for line in apt_options()]
        command = ["mmdebstrap", "--variant=minbase", f"--include={base.packages}", *options]
        keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
        if keyring.exists():
            command.append(f"--keyring={keyring}")
        source = f"deb {debian_mirror()} {base.codename} main"
        run(root([*command, base.codename, str(partial), source]), timeout=1800)
        partial.rename(tar)
    docker("import", tar, tag)
    return tag


def in_container(image: str, script: str, *volumes: str) -> str:
    """Run a shell script in a throw-away container that sees this machine's network."""
    mounts = [part for volume in volumes for part in ("-v", volume)]
    proxies = [
        part
        for name in ("http_proxy", "https_proxy", "no_proxy")
        if name in os.environ
        for part in ("-e", f"{name}={os.environ[name]}")
    ]
    shell = ["-i", image, "sh", "-eu"]
    return docker("run", "--rm", "--network=host", *proxies, *mounts, *shell, data=script.encode(), timeout=1800)


def host_image(name: str) -> str:
    """Tag of the image of a plain lab host on the base ``name``: users, sshd, the simulated kernel."""
    kernel = os.uname().release
    base = base_image(name)
    tag = f"provision-lab:{name}-{fingerprint([base, kernel, SIM / 'host', KEYS / 'repo.asc', dockerfile(base)])}"
    if image_exists(tag):
        return tag
    say(f"building the image of a {name} host")
    with tempfile.TemporaryDirectory(prefix="provision-lab-image-") as folder:
        context = Path(folder)
        copytree(SIM / "host", context / "gpu-sim")
        copy2(KEYS / "repo.asc", context / "gpu-sim" / "repo.asc")
        run(["gcc", "-O2", "-o", context / "gpu-sim" / "hold", SIM / "host" / "hold.c"])
        (context / "Dockerfile").write_text(dockerfile(base))
        # An old engine's builder is the only one there is; a new engine must not insist on buildx.
        docker("build", "-q", "--build-arg", f"SUITE={name}", "-t", tag, folder)
    return tag


def dockerfile(base: str) -> str:
    return (
        f"FROM {base}\nARG SUITE\nLABEL provision-lab=1\nCOPY gpu-sim /opt/gpu-sim\n"
        "RUN SUITE=$SUITE sh /opt/gpu-sim/setup.sh\nENV container=docker\nSTOPSIGNAL SIGRTMIN+3\n"
        'CMD ["/lib/systemd/systemd"]\n'
    )


def downloaded(key: str, image: str, script: str) -> list[Path]:
    """The .deb files that ``script`` leaves in /out, run in ``image``; kept in the cache under ``key``."""
    folder = CACHE / f"debs-{key}-{fingerprint([image, script])}"
    if not (folder / ".complete").exists():
        say(f"downloading packages: {key}")
        folder.mkdir(parents=True, exist_ok=True)
        settings = "".join(f"echo {shlex.quote(line)} >>/etc/apt/apt.conf.d/99lab\n" for line in apt_options())
        prepare = settings + "rm -f /etc/apt/apt.conf.d/docker-clean\n"
        collect = f"cp /var/cache/apt/archives/*.deb /out/; chown -R {os.getuid()}:{os.getgid()} /out\n"
        in_container(image, prepare + script + collect, f"{folder}:/out")
        if not list(folder.glob("*.deb")):
            raise LabError(f"no package was downloaded for {key}; the script was:\n{script}")
        (folder / ".complete").touch()
    return sorted(folder.glob("*.deb"))
