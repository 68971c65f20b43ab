"""From what a host printed to what a person should do."""

from __future__ import annotations

import pytest

from provisioner.errors import AuthenticationError, Disconnected, SudoError, Unreachable
from provisioner.transport.exchange import NotRun
from provisioner.transport.sudo import refusal


@pytest.mark.parametrize(
    ("status", "stderr", "kind", "word"),
    [
        (1, "sudo: a password is required\n", SudoError, "sudo_password"),
        (1, "sudo: unable to resolve host x\nsudo: a password is required\n", SudoError, "sudo_password"),
        (1, "provision:password:\nsudo: no password was provided\n", SudoError, "sudo_password"),
        (1, "Sorry, try again.\nsudo: 3 incorrect password attempts\n", SudoError, "wrong"),
        (1, "ops is not in the sudoers file.\n", SudoError, "/etc/sudoers.d/ops"),
        (1, "Sorry, user ops is not allowed to execute '/bin/sh' as root on h.\n", SudoError, "sudoers.d"),
        (1, "sudo: sorry, you must have a tty to run sudo\n", SudoError, "requiretty"),
        (127, "sh: 1: exec: sudo: not found\n", SudoError, "install it"),
        (127, "sh: line 1: exec: sudo: command not found\n", SudoError, "install it"),
        (1, 'sudo: The "no new privileges" flag is set\n', SudoError, "setuid"),
        (1, "This account is currently not available.\n", AuthenticationError, "usermod"),
        (1, "Password change required but no TTY available.\n", AuthenticationError, "passwd"),
        (254, "System is booting up. Unprivileged users are not permitted to log in yet.\n", Unreachable, "booting"),
        (2, "something else\n", SudoError, "something else"),
        (9, "", SudoError, "status 9"),
        (None, "", Disconnected, "nothing of the script was executed"),
    ],
)
def test_reasons(status: int | None, stderr: str, kind: type[Exception], word: str) -> None:
    error = refusal("gpu01", "ops", NotRun(status, "", stderr, ready=False))
    assert type(error) is kind
    assert word in str(error)
    assert "gpu01" in error.what
    assert error.remedy
    assert "provision:" not in str(error)


def test_a_script_that_arrived_in_part() -> None:
    error = refusal("gpu01", "ops", NotRun(74, "provision:ready\n", "", ready=True))
    assert isinstance(error, Disconnected)
    assert "nothing of it was executed" in error.remedy
