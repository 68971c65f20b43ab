"""Files of the controller, replaced in one step: what stays, and what is never replaced."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from provisioner.engine.locking import write_beside
from provisioner.errors import UsageError
from provisioner.replacing import replace_file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_and_a_private_one(tmp_path: Path) -> None:
    replace_file(tmp_path / "site.lock", b"1")
    replace_file(tmp_path / "plan.json", b"2", private=True)
    assert (mode(tmp_path / "site.lock"), mode(tmp_path / "plan.json")) == (0o644, 0o600)
    assert (tmp_path / "site.lock").read_bytes() + (tmp_path / "plan.json").read_bytes() == b"12"


def test_link_mode_and_owner_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "shared" / "prod.lock", tmp_path / "prod.lock"
    target.parent.mkdir()
    target.write_text("old")
    target.chmod(0o664)
    if os.geteuid() == 0:
        os.chown(target, 1234, 2345)
    before = target.stat()
    link.symlink_to("shared/prod.lock")
    replace_file(link, b"new")
    after = target.stat()
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)


def test_a_private_file_is_its_writers_alone_whatever_was_there(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    path.chmod(0o666)
    replace_file(path, b"new", private=True)
    assert mode(path) == 0o600


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def link_to_a_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to("fifo")


@pytest.mark.parametrize("private", [False, True], ids=["shared", "private"])
@pytest.mark.parametrize("make", [fifo, bound_socket, link_to_a_fifo, Path.mkdir])
def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path, make: Callable[[Path], None], private: bool) -> None:
    path = tmp_path / "there"
    make(path)
    before = {each.name: each.lstat().st_ino for each in tmp_path.iterdir()}
    with pytest.raises(OSError, match="isn't a regular file"):
        replace_file(path, b"x", private=private)
    assert {each.name: each.lstat().st_ino for each in tmp_path.iterdir()} == before


def test_no_link_is_followed_to_write_what_is_private(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("old")
    (tmp_path / "plan.json").symlink_to("elsewhere")
    with pytest.raises(OSError, match="isn't a regular file"):
        replace_file(tmp_path / "plan.json", b"secret", private=True)
    assert (tmp_path / "elsewhere").read_text() == "old"


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "prod.lock"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError) as told:
        write_beside(path, "new")
    assert f"can't write {path}" in str(told.value)
    assert "No space left on device; it is as it was" in str(told.value)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("prod.lock", "old")]
