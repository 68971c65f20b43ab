"""`provision containerd-config`: exact bytes to standard output, reasons to standard error, files replaced at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from provisioner.cli.containerd_config import containerd_config

from .seen import case, seen

OPTIONS = ["--mode", "default", "--containerd", "1.7.24", "--cgroup-driver", "systemd"]


def run(*args: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(containerd_config, list(args), input=stdin)


def test_the_result_goes_to_standard_output_byte_for_byte() -> None:
    result = run(*OPTIONS, stdin=case("crlf-tabs"))
    assert result.exit_code == 0
    assert result.stdout_bytes.count(b"\r\n") == result.stdout_bytes.count(b"\n")
    assert seen(result.stdout_bytes, "1.7.24").startswith("default=nvidia ")
    assert "nvidia" in result.stderr


def test_as_a_module_with_a_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "provisioner.cli.containerd_config", *OPTIONS],
        input=case("already-done"),
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout == case("already-done")
    assert b"Nothing to change" in done.stderr


def test_a_file_that_does_not_exist_counts_as_empty(tmp_path: Path) -> None:
    result = run(str(tmp_path / "config.toml"), *OPTIONS)
    assert result.exit_code == 0
    assert result.stdout_bytes.startswith(b"version = 2\n")
    assert not (tmp_path / "config.toml").exists()


def test_a_refusal_prints_nothing_and_exits_1(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("version = = 2\n")
    result = run(str(file), *OPTIONS, "--write")
    assert result.exit_code == 1
    assert result.stdout_bytes == b""
    assert "TOML" in result.stderr
    assert file.read_text() == "version = = 2\n"


def test_write_keeps_mode_and_link_and_leaves_no_other_file(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    target = real / "config.toml"
    target.write_bytes(case("registry-mirrors"))
    target.chmod(0o600)
    link = tmp_path / "config.toml"
    link.symlink_to(target)
    result = run(str(link), *OPTIONS, "--write")
    assert result.exit_code == 0
    assert result.stdout_bytes == b""
    assert link.is_symlink()
    assert os.stat(target).st_mode & 0o777 == 0o600
    assert os.listdir(real) == ["config.toml"]
    assert seen(target.read_bytes(), "1.7.24").startswith("default=nvidia ")


def test_write_touches_nothing_when_nothing_differs_and_creates_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(case("already-done"))
    before = file.stat()
    assert run(str(file), *OPTIONS, "--write").exit_code == 0
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    new = tmp_path / "etc" / "containerd" / "config.toml"
    assert run(str(new), *OPTIONS, "--write").exit_code == 0
    assert new.stat().st_mode & 0o777 == 0o644


def test_a_removal_needs_no_mode() -> None:
    done = run(*OPTIONS, stdin=case("kubeadm-systemd"))
    undone = run("--remove", "--containerd", "1.7.24", stdin=done.stdout_bytes)
    assert undone.exit_code == 0
    assert undone.stdout_bytes == case("kubeadm-systemd")


@pytest.mark.parametrize(
    "args", [["--containerd", "1.7.24"], [*OPTIONS, "--write"], ["--mode", "default"], [*OPTIONS, "--mode", "both"]]
)
def test_a_wrong_command_line(args: list[str]) -> None:
    result = run(*args, stdin=b"")
    assert result.exit_code == 2
    assert result.stdout_bytes == b""


def test_imports_are_read_below_their_root(tmp_path: Path) -> None:
    etc = tmp_path / "etc" / "containerd"
    (etc / "conf.d").mkdir(parents=True)
    file = etc / "config.toml"
    file.write_text('version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n')
    drop_in = etc / "conf.d" / "10.toml"
    drop_in.write_text('version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_selinux = true\n')
    result = run(str(file), *OPTIONS, "--imports-root", str(tmp_path))
    assert result.exit_code == 1
    assert "/etc/containerd/conf.d/10.toml" in result.stderr
    drop_in.unlink()
    assert run(str(file), *OPTIONS, "--imports-root", str(tmp_path)).exit_code == 0


def test_cdi_and_an_unreadable_file(tmp_path: Path) -> None:
    result = run(*OPTIONS, "--enable-cdi", stdin=b"")
    assert b"enable_cdi = true" in result.stdout_bytes
    folder = run(str(tmp_path), *OPTIONS)
    assert folder.exit_code != 0
