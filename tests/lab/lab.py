"""The lab as a whole."""

from __future__ import annotations

import fcntl
import functools
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.lab.contents import repository
from tests.lab.engine import docker, ensure_engine, run, say
from tests.lab.host import HOSTS, LabHost
from tests.lab.images import host_image
from tests.lab.paths import CACHE, CLIENT_KEY, KNOWN_HOSTS, MACHINES, STATE
from tests.lab.prepared import prepared_image, sid_image


class Lab:
    """All hosts of the lab. Making one is cheap; ``up`` does the work."""

    def __init__(self) -> None:
        self._hosts = {
            name: LabHost(spec, functools.partial(_image, spec.base), _repository) for name, spec in HOSTS.items()
        }

    def host(self, name: str) -> LabHost:
        """Handle of a host; it is not started by this."""
        return self._hosts[name]

    def hosts(self) -> list[LabHost]:
        return list(self._hosts.values())

    def up(self, *names: str) -> None:
        """Bring up the named hosts (the three of inventories/lab.toml by default), as they are."""
        self._each(names, lambda host: host.up())

    def reset(self, *names: str) -> None:
        """Make the named hosts pristine (the three of inventories/lab.toml by default)."""
        self._each(names, lambda host: host.reset())

    def down(self) -> None:
        """Remove all hosts; images, caches and keys stay."""
        found = docker("ps", "-aq", "--filter", "name=^provision-lab-").split()
        if found:
            docker("rm", "-f", "-v", *found)

    def purge(self) -> None:
        """Remove hosts, images and caches; what is left is this checkout's keys."""
        self.down()
        for name in ("provision-lab", "provision-lab-base"):
            images = docker("images", "-q", name).split()
            if images:
                docker("rmi", "-f", *dict.fromkeys(images))
        shutil.rmtree(CACHE, ignore_errors=True)

    def _each(self, names: tuple[str, ...], do: Callable[[LabHost], None]) -> None:
        chosen = names or tuple(name for name, spec in HOSTS.items() if spec.shown)
        with lock():
            ensure_engine()
            make_keys()
            _repository()
            for name in chosen:
                _image(HOSTS[name].base)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(do, (self.host(name) for name in chosen)))


@functools.cache
def _image(base: str) -> str:
    match base:
        case "prepared":
            return prepared_image(_repository())
        case "sid":
            return sid_image()
    return host_image(base)


@functools.cache
def _repository() -> Path:
    return repository()


@contextmanager
def lock() -> Iterator[None]:
    """Two runs at once build things once."""
    STATE.mkdir(mode=0o700, exist_ok=True)
    with (STATE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make_keys() -> None:
    """Client key and host keys, made once per checkout, and the known_hosts file for them."""
    STATE.mkdir(mode=0o700, exist_ok=True)
    if not CLIENT_KEY.exists():
        say("making the client key and the host keys")
        _keygen(CLIENT_KEY, "provision-lab")
    lines = []
    owners = [(spec.name, (spec.port,)) for spec in HOSTS.values()]
    # The machines with a kernel of their own are started from one saved state and so share one key.
    for name, ports in [*owners, ("vm", tuple(MACHINES.values()))]:
        key = STATE / "hosts" / name / "ssh_host_ed25519_key"
        if not key.exists():
            key.parent.mkdir(parents=True, exist_ok=True)
            _keygen(key, name)
        kind, public = key.with_suffix(".pub").read_text().split()[:2]
        lines += [f"[127.0.0.1]:{port} {kind} {public}\n" for port in ports]
    KNOWN_HOSTS.write_text("".join(lines))


def _keygen(path: Path, comment: str) -> None:
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path])
