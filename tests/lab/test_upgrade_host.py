"""The host's side of a rolling upgrade: a driver taken out, replaced from the local cache, put in and proven; and back.

gpu-t has the simulated card and packages made for it; gpu-d Debian's real packages in two versions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provisioner.config.lockfile import read_lock
from provisioner.engine.reboot import wait_for_boot
from provisioner.errors import HostLocked, LeaseLost, TransportError
from provisioner.facts.merge import facts_from, merge
from provisioner.facts.packages import PackagesProbe, PackageState
from provisioner.model.inventory import Connection, Host
from provisioner.model.lock import Closure
from provisioner.model.upgrade import Result
from provisioner.tasks.packaging.apt import Apt
from provisioner.transport.ssh import SshExecutor
from provisioner.upgrade import hostops, layout
from provisioner.upgrade.clients import start_clients, stop_clients
from provisioner.upgrade.holders import look
from provisioner.upgrade.hoststep import Fence, release
from provisioner.upgrade.prefetch import Fetched, prefetch, previous_closure, previous_set, stored, target_set
from provisioner.upgrade.verify import verify
from tests.lab import Lab, LabHost
from tests.lab.paths import CLIENT_KEY, KNOWN_HOSTS
from tests.lab.site import Site, book

OLD, NEW, BROKEN = "570.158.01", "580.95.05", "580.99.99"
FENCE = Fence("roll-1", 3, "ops@desk")
SOURCE = "/etc/apt/sources.list.d/vendor.sources"
NAMES = (
    "nvidia-open nvidia-driver-cuda nvidia-kernel-open-dkms nvidia-kernel-support firmware-nvidia-gsp nvidia-modprobe"
    " libcuda1 libnvidia-ml1 nvidia-persistenced"
)


def executor(host: LabHost) -> SshExecutor:
    """A connection as the product makes one."""
    way = Connection("127.0.0.1", port=host.port, user="ops", key=CLIENT_KEY, known_hosts=KNOWN_HOSTS)
    return SshExecutor(Host(host.name, way), through=None, warn=print)


def installed(one: SshExecutor) -> PackageState:
    done = one.run(merge([PackagesProbe()]), timeout=60)
    return facts_from(one.host.name, [PackagesProbe()], done.stdout, time.time()).need(PackagesProbe())


def versions(one: SshExecutor) -> dict[str, str]:
    """Installed packages, the held ones too."""
    return {name: package.version for name, package in installed(one).packages.items() if package.installed}


def closure(version: str) -> Closure:
    """The simulated driver's packages at a version, from the lab's own lock."""
    lock = read_lock(Path(__file__).parents[2] / "inventories" / "lab.lock")
    assert lock is not None
    found = next(each for each in lock.closures if each.distribution == "debian12")
    packages = tuple(
        type(each)(each.name, each.version.replace(found.driver, version), each.arch, each.role)
        for each in found.packages
    )
    return Closure("debian12", "amd64", "nvidia", version, "open", found.toolkit, found.top, packages)


@pytest.fixture
def host(pristine: Callable[[str], LabHost]) -> LabHost:
    """gpu-t with the old driver, its daemon, a CDI spec and a person's hold."""
    host = pristine("gpu-t")
    text = (
        "Types: deb\nURIs: file:/srv/lab-repo/nvidia\nSuites: debian12\nComponents: main broken\n"
        "Signed-By: /usr/share/keyrings/lab-debian.asc\n"
    )
    host.put(SOURCE, text)
    wanted = " ".join(f"{name}={OLD}-1" for name in NAMES.split())
    host.exec(f"apt-get update -q && apt-get install -q -y --no-install-recommends {wanted}", check=True)
    host.exec("apt-get install -q -y --no-install-recommends nvidia-container-toolkit-base", check=True)
    host.exec(
        "apt-mark hold libcuda1; for m in nvidia nvidia_uvm nvidia_modeset nvidia_drm; do modprobe $m || exit; done;"
        " systemctl start nvidia-persistenced && mkdir -p /etc/cdi"
        " && nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
        check=True,
    )
    return host


@pytest.fixture
def one(host: LabHost) -> Iterator[SshExecutor]:
    made = executor(host)
    yield made
    made.close()


def fetch(one: SshExecutor, target: Closure, source: str = OLD) -> Fetched:
    state = installed(one)
    return prefetch(FENCE, target_set(target, state, Apt()), previous_set(target, state, source)).run(one)


def loaded(host: LabHost) -> str:
    return host.exec("cat /sys/module/nvidia/version").stdout.strip()


def test_there_and_back_from_the_cache_alone(host: LabHost, one: SshExecutor) -> None:
    target = closure(NEW)
    layout.remember(FENCE).run(one)
    before = versions(one)
    fetched = fetch(one, target)
    assert fetched.target.ready, fetched.target.reason
    assert fetched.previous.ready, fetched.previous.reason
    assert versions(one) == before

    # From here on no repository can be asked.
    host.exec(f"mv {SOURCE} /root; rm -rf /var/lib/apt/lists/*; mkdir -p /var/lib/apt/lists/partial", check=True)
    assert stop_clients(FENCE).run(one).done[-1] == "nvidia-persistenced.service"
    out = hostops.unload(FENCE).run(one)
    assert out.result is Result.OK
    assert out.modules == ("nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")
    pins = Apt().pins(target.role("driver", "toolkit"))
    done = hostops.install(one, FENCE, fetched.target, pins)
    assert done.result is Result.OK, done.output
    assert hostops.load(FENCE, NEW).run(one).result is Result.OK
    seen = verify(one, FENCE, NEW, cards=2)
    assert seen.result is Result.OK, seen.reason
    assert f"libcuda.so.{NEW}" in host.get("/etc/cdi/nvidia.yaml").decode()
    assert "nvidia-persistenced.service" in start_clients(FENCE).run(one).done
    assert {versions(one)[name] for name in NAMES.split()} == {f"{NEW}-1"}
    assert set(NAMES.split()) <= set(host.exec("apt-mark showhold").stdout.split())
    assert f"Pin: version {NEW}-1" in host.get("/etc/apt/preferences.d/provision-nvidia").decode()
    assert host.exec("ls /sys/module").stdout.split().count("nvidia_drm") == 1, "what was loaded before is back"

    previous = stored(FENCE, OLD).run(one)
    assert previous.packages == fetched.previous.packages
    back = previous_closure(target, previous, installed(one))
    stop_clients(FENCE).run(one)
    assert hostops.unload(FENCE).run(one).result is Result.OK
    done = hostops.install(one, FENCE, previous, Apt().pins(back.role("driver", "toolkit")), downgrade=True)
    assert done.result is Result.OK, done.output
    assert hostops.load(FENCE, OLD).run(one).result is Result.OK
    seen = verify(one, FENCE, OLD, cards=2)
    assert seen.result is Result.OK, seen.reason
    start_clients(FENCE).run(one)
    assert versions(one) == before
    assert f"Pin: version {OLD}-1" in host.get("/etc/apt/preferences.d/provision-nvidia").decode()
    assert host.exec("systemctl is-active nvidia-persistenced").stdout.strip() == "active"


def test_a_busy_card_is_named_and_takes_effect_by_a_reboot(host: LabHost, one: SshExecutor) -> None:
    target = closure(NEW)
    fetched = fetch(one, target)
    host.card.set(busy=True)
    stop_clients(FENCE).run(one)
    out = hostops.unload(FENCE, patience=1).run(one)
    assert out.result is Result.BUSY
    assert out.modules == ()
    assert loaded(host) == OLD
    pid = host.exec("cat /run/gpu-sim/holder.pid").stdout.strip()
    assert pid in {str(holder.pid) for holder in out.held.processes}
    assert f"held by {pid} " in out.held.text()
    assert look(FENCE).run(one).driver == OLD

    pins = Apt().pins(target.role("driver", "toolkit"))
    assert hostops.install(one, FENCE, fetched.target, pins).result is Result.OK
    stale = hostops.load(FENCE, NEW).run(one)
    assert stale.result is Result.RETRY_REBOOT, "modprobe ends with 0 while the old module is loaded"
    assert OLD in stale.reason
    host.card.set(busy=False)
    boot = hostops.identify(FENCE).run(one)
    assert hostops.restart(FENCE, boot).run(one).begun
    wait_for_boot(one, boot, 60)
    assert not hostops.restart(FENCE, boot).run(one).begun, "a host that has restarted is not restarted again"
    seen = verify(one, FENCE, NEW, cards=2)
    assert seen.result is Result.OK, seen.reason
    start_clients(FENCE).run(one)
    assert host.exec("systemctl is-active nvidia-persistenced").stdout.strip() == "active"


def test_a_transaction_that_fails_in_the_middle_is_led_back(host: LabHost, one: SshExecutor) -> None:
    target = closure(BROKEN)
    before = versions(one)
    fetched = fetch(one, target)
    assert fetched.target.ready, fetched.target.reason
    stop_clients(FENCE).run(one)
    hostops.unload(FENCE).run(one)
    failed = hostops.install(one, FENCE, fetched.target, Apt().pins(target.role("driver")))
    assert failed.result is Result.FAILED
    assert "nvidia-kernel-open-dkms" in failed.output
    assert "libcuda1" in host.exec("apt-mark showhold").stdout.split(), "a person's hold is back"
    assert host.exec("cat /etc/apt/preferences.d/provision-nvidia").returncode != 0, "no pins of a version that failed"

    # A resumed roll fetches again; what is half installed now must not become the way back.
    again = fetch(one, target)
    assert again.previous.packages == fetched.previous.packages
    back = hostops.install(one, FENCE, again.previous, (), downgrade=True)
    assert back.result is Result.OK, back.output
    assert versions(one) == before
    assert hostops.load(FENCE, OLD).run(one).result is Result.OK
    seen = verify(one, FENCE, OLD, cards=2)
    assert seen.result is Result.OK, seen.reason


def test_no_way_back_is_found_before_anything_is_touched(host: LabHost, one: SshExecutor) -> None:
    """The old version is in no repository any more, only what apt kept of it."""
    host.exec(f"apt-get clean; cd /var/cache/apt/archives && apt-get download -q libcuda1={OLD}-1", check=True)
    host.exec(
        "d=$(mktemp -d) && cp -rL /srv/lab-repo/nvidia/. $d && cd $d/dists/debian12/main/binary-amd64"
        " && rm -f Packages.*"
        f" && awk -v RS= -v ORS='\\n\\n' '!/Version: {OLD}-1/' Packages >n && mv n Packages && rm -f ../../*Release*"
        " && chmod -R a+rX $d"
        " && printf 'deb [trusted=yes] file:%s debian12 main\\n' $d >/etc/apt/sources.list.d/less.list"
        f" && rm {SOURCE} && apt-get update -q",
        check=True,
    )
    fetched = fetch(one, closure(NEW))
    assert fetched.target.ready, fetched.target.reason
    assert not fetched.previous.ready
    assert f"nvidia-open {OLD}-1" in fetched.previous.missing
    assert f"libcuda1 {OLD}-1" not in fetched.previous.missing, "apt's own copy serves"
    assert "neither the repositories nor this host's own cache have" in fetched.previous.reason


def test_an_older_roll_and_a_second_one_are_refused(host: LabHost, one: SshExecutor) -> None:
    other = executor(host)
    newer = Fence("roll-2", 4, "someone@laptop")
    try:
        look(FENCE).run(one)
        with pytest.raises(HostLocked, match="being changed by another run") as held:
            look(newer).run(other)
        assert "ops@desk has held this host since" in str(held.value)
        release(FENCE).run(one)
        look(newer).run(other)
        with pytest.raises(LeaseLost) as lost:
            hostops.unload(FENCE).run(one)
        assert "roll 4 has worked on this host; this one is 3" in str(lost.value)
        assert loaded(host) == OLD
        # A refused step doesn't keep the newer roll away either.
        look(newer).run(other)
    finally:
        other.close()


def test_an_installation_outlives_its_controller(host: LabHost, one: SshExecutor) -> None:
    target = closure(NEW)
    fetched = fetch(one, target)
    stop_clients(FENCE).run(one)
    hostops.unload(FENCE).run(one)
    pins = Apt().pins(target.role("driver", "toolkit"))
    lost: list[Exception] = []

    def lose() -> None:
        try:
            hostops.install(one, FENCE, fetched.target, pins)
        except TransportError as error:
            lost.append(error)

    thread = threading.Thread(target=lose)
    thread.start()
    for _ in range(100):
        if host.exec("pgrep -x apt-get").returncode == 0:
            break
        time.sleep(0.1)
    one.close()
    thread.join(60)
    resumed = executor(host)
    try:
        done = hostops.install(resumed, FENCE, fetched.target, pins)
        assert done.result is Result.OK, done.output
        assert hostops.load(FENCE, NEW).run(resumed).result is Result.OK
        assert verify(resumed, FENCE, NEW, cards=2).reason == ""
        now = versions(resumed)
    finally:
        resumed.close()
    assert lost, "the first controller must have lost its connection"
    assert {now[name] for name in NAMES.split()} == {f"{NEW}-1"}


def test_real_packages_there_and_back(lab: Lab, pristine: Callable[[str], LabHost], tmp_path: Path) -> None:
    """Debian's own driver, 95 MB a version, dkms and all."""
    host = pristine("gpu-d")
    listed = host.exec("grep -h -A8 '^Package: nvidia-smi$' /srv/lab-repo/debian-real/dists/*/main/*/Packages").stdout
    upstreams = sorted({line.split()[1].split("-")[0] for line in listed.splitlines() if line.startswith("Version:")})
    if len(upstreams) < 2:
        pytest.skip(f"the lab's mirror has Debian's real driver in {upstreams or 'no version'} only")
    old, new = upstreams[0], upstreams[-1]
    site = Site(tmp_path)
    closures = {}
    repository = (
        '[repositories.{0}]\nuri = "file:/srv/lab-repo/{1}"\nsuite = "debian12"\ncomponents = ["main"]\n'
        'key_file = "repo.asc"\nkey_fingerprint = "8B9701EDB92A647E5E0FFB006150B7BB7B610A27"\n'
    )
    text = (
        '[versions]\ndriver = "{0}"\nflavour = "proprietary"\ntoolkit = "1.18.0"\n[driver]\nsource = "debian"\n'
        + repository.format("real", "debian-real")
        + repository.format("nvidia", "nvidia")
    )
    for version in (new, old):
        tasks = book('task = "repositories"', 'task = "pin"', 'task = "driver"')
        site.write(host, text=text.replace("{0}", version), playbook=tasks)
        assert site.run("lock").returncode == 0
        lock = read_lock(site.inventory.with_suffix(".lock"))
        assert lock is not None
        closures[version] = next(each for each in lock.closures if each.driver == version)
    applied = site.run("apply", "--yes", "--disruptive")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    one = executor(host)
    assert versions(one)["nvidia-smi"].startswith(old)
    before = versions(one)
    host.exec("apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get -y dist-upgrade", check=True, timeout=300)
    assert versions(one) == before, "the newer version in the repository moves nothing"
    host.exec("modprobe nvidia; modprobe nvidia_uvm; modprobe nvidia_modeset", check=True)
    target = closures[new]
    fetched = fetch(one, target, old)
    assert fetched.target.ready, fetched.target.reason
    assert fetched.previous.ready, fetched.previous.reason
    assert fetched.target.size > 50_000_000
    for version, packages in ((new, fetched.target), (old, fetched.previous)):
        stop_clients(FENCE).run(one)
        assert hostops.unload(FENCE).run(one).result is Result.OK
        done = hostops.install(one, FENCE, packages, (), downgrade=version == old)
        assert done.result is Result.OK, done.output
        assert hostops.load(FENCE, version).run(one).result is Result.OK
        assert loaded(host) == version
        assert versions(one)["libcuda1"].startswith(version)
    assert versions(one) == before
    one.close()
