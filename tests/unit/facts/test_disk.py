"""Space, as df says it on different file systems."""

from __future__ import annotations

from pathlib import Path

from provisioner.facts.disk import Space, SpaceProbe
from provisioner.facts.runfile import RunfileDriver, RunfileProbe
from provisioner.model.fact import Absent, Known, Output
from tests.unit.facts.shell import ask, put


def test_df_of_a_usual_file_system() -> None:
    text = b"41151808 20575904 /\n2621440 2400000\noptions rw,relatime,errors=remount-ro\n"
    assert SpaceProbe("/").parse(Output(0, text)) == Space("/", 41151808, 20575904, 2400000)


def test_btrfs_has_no_fixed_number_of_inodes() -> None:
    assert SpaceProbe("/").parse(Output(0, b"100 50 /\n0 0\noptions rw\n")).inodes is None


def test_read_only_and_a_mount_point_with_a_space() -> None:
    found = SpaceProbe("/srv/a b").parse(Output(0, b"100 50 /srv/a b\noptions ro,relatime\n"))
    assert found == Space("/srv/a b", 100, 50, None, read_only=True)


def test_the_real_df(tmp_path: Path) -> None:
    put(tmp_path, {"/proc/mounts": "/dev/sda1 / ext4 rw 0 0\n"})
    found = ask(SpaceProbe(str(tmp_path)), tmp_path)
    assert isinstance(found, Known)
    assert 0 < found.value.free <= found.value.size
    assert ask(SpaceProbe(f"{tmp_path}/nothing"), tmp_path) == Absent()


def test_a_driver_of_a_run_file(tmp_path: Path) -> None:
    put(tmp_path, {"/usr/bin/nvidia-uninstall": "", "/var/log/nvidia-installer.log": "installer version: 530.30.02\n"})
    path = f"{tmp_path}/usr/bin/nvidia-uninstall"
    nobody, somebody = {"dpkg-query": "exit 1"}, {"dpkg-query": f"echo nvidia-installer: {path}"}
    assert ask(RunfileProbe(), tmp_path, nobody) == Known(RunfileDriver(path, "530.30.02"))
    assert ask(RunfileProbe(), tmp_path, somebody) == Absent()
