"""The disks that machines start from: the system's, which overlays lie on, and one with keys and repositories."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.lab.engine import LabError, root, run, say
from tests.lab.images import BASES
from tests.lab.lab import make_keys
from tests.lab.mirror import apt_options, debian_mirror
from tests.lab.paths import CACHE, CLIENT_KEY, KEYS, STATE, fingerprint
from tests.vm import disk
from tests.vm.cached import made
from tests.vm.contents import repository
from tests.vm.driver import nouveau
from tests.vm.engine import install_missing_tools
from tests.vm.kernel import kernels

GUEST = Path(__file__).with_name("guest")
ROOT_UUID = "0b9d2a54-55c4-4b0e-9f43-1f1d7a3c5e10"
#: Sparse; what a test installs must find room.
SIZE = 4 << 30
#: The host key that all machines share; a saved state has it in memory.
HOST_KEY = STATE / "hosts" / "vm" / "ssh_host_ed25519_key"

_PACKAGES = (
    "systemd,systemd-sysv,udev,dbus,openssh-server,sudo,iproute2,kmod,procps,psmisc,pciutils,ca-certificates,containerd,"
    "initramfs-tools,linux-base,zstd,python3,grub-pc"
)


@functools.cache
def system() -> Path:
    """The system's disk: Debian with the older of the two kernels, containerd, and a nouveau for the cards."""
    kernel, _ = kernels()
    return build((*kernel.image, *nouveau(kernel)))


def build(debs: Iterable[Path]) -> Path:
    """The system's disk with these packages (a kernel among them) on top; made where the recipe has changed."""
    debs = sorted(debs)
    texts = [path.read_text() for path in (Path(__file__), Path(disk.__file__), *sorted(GUEST.iterdir()))]
    # A package is known by its name and content: a rebuilt one may keep its version.
    contents = [f"{path.name} {fingerprint([path.read_bytes().hex()])}" for path in debs]
    target = CACHE / f"vm-system-{fingerprint([*texts, *contents, _key()])}.img"
    return made(target, lambda partial: _system(debs, partial))


def _system(debs: list[Path], target: Path) -> None:
    install_missing_tools()
    say("building the machines' system from the Debian mirror (about a minute and a half)")
    folder = Path(tempfile.mkdtemp(prefix="vm-system-", dir=CACHE))
    try:
        folder.chmod(0o755)
        _debootstrap(folder / "root", debs)
        disk.bootable(folder / "root", target, size=SIZE, uuid=ROOT_UUID)
    finally:
        run(root(["rm", "-rf", "--one-file-system", str(folder)]))


def _debootstrap(tree: Path, debs: list[Path]) -> None:
    """Fill ``tree`` with the system; the guest's own set-up runs in it at the end."""
    files = shlex.join(str(path) for path in (*sorted(GUEST.iterdir()), KEYS / "repo.asc"))
    into = (
        f'mkdir -p "$1/opt/vm/debs"; cp {files} "$1/opt/vm/"; '
        f'cp {shlex.join(map(str, debs))} "$1/opt/vm/debs/"; '
        f'chroot "$1" env ROOT_UUID={ROOT_UUID} sh -eu /opt/vm/setup.sh'
    )
    base = BASES["debian12"]
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={_PACKAGES}"]
    # The guest's set-up writes a machine id, which all machines share: so no boot is the first one.
    command.append("--skip=cleanup/reproducible")
    command += ["--dpkgopt=force-unsafe-io", *(f"--aptopt={line}" for line in apt_options())]
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    if keyring.exists():
        command.append(f"--keyring={keyring}")
    command.append(f"--customize-hook={into}")
    source = f"deb {debian_mirror()} {base.codename} main"
    run(root([*command, base.codename, str(tree), source]), timeout=1800)


def _key() -> str:
    return (KEYS / "repo.asc").read_text()


@functools.cache
def data() -> Path:
    """The second disk, label ``vm-data``: keys of this checkout, and /srv/lab-repo."""
    return second_disk(repository())


def second_disk(packages: Path) -> Path:
    """The second disk with this repository; made where the repository (by its name) or the keys have changed."""
    make_keys()
    public = CLIENT_KEY.with_suffix(".pub")
    recipe = [Path(__file__).read_text(), packages.name, public.read_text(), HOST_KEY.read_text()]
    target = CACHE / f"vm-data-{fingerprint(recipe)}.img"
    return made(target, lambda partial: _data(packages, partial))


def _data(packages: Path, target: Path) -> None:
    install_missing_tools()
    say("building the machines' second disk")
    with tempfile.TemporaryDirectory(prefix="vm-data-", dir=CACHE) as name:
        folder = Path(name)
        folder.chmod(0o755)
        keys = folder / "keys"
        keys.mkdir(mode=0o755)
        shutil.copyfile(CLIENT_KEY.with_suffix(".pub"), keys / "authorized_keys")
        shutil.copyfile(HOST_KEY, keys / HOST_KEY.name)
        (keys / HOST_KEY.name).chmod(0o600)
        try:
            shutil.copytree(packages, folder / "lab-repo", symlinks=True, copy_function=os.link)
        except OSError as error:
            raise LabError(f"{packages} can't be linked into {folder}: {error}. Both belong into {CACHE}.") from None
        # What the guest's root and sshd trust must not belong to whoever runs the tests.
        run(root(["chown", "-R", "-h", "0:0", str(keys)]))
        disk.plain(folder, target, label="vm-data")
        run(root(["chown", "-R", "-h", f"{os.getuid()}:{os.getgid()}", str(keys), str(target)]))
