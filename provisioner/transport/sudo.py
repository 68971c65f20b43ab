"""Why a shell on a host did not become root, told from what sudo, or the login, printed instead."""

from __future__ import annotations

from provisioner.errors import AuthenticationError, Disconnected, SudoError, TransportError
from provisioner.transport.exchange import PROMPT, NotRun

_NOT_WHOLE = 74
_REASONS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("incorrect password attempt", "try again", "maximum 3 incorrect"),
        "the sudo password is wrong",
        "set the right sudo_password in the inventory; it may come from a prompt, the environment or a file",
    ),
    (
        ("a password is required", "no password was provided", "a terminal is required to read the password"),
        "sudo asks for a password",
        "set sudo_password in the inventory, or allow this user to use sudo without one (NOPASSWD)",
    ),
    (
        ("is not in the sudoers file", "is not allowed to", "may not run sudo", "is not allowed on"),
        "sudo doesn't allow this user to become root",
        "add a rule on the host: echo 'USER ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/USER",
    ),
    (
        ("must have a tty",),
        "sudo wants a terminal (requiretty in its sudoers)",
        "add `Defaults:USER !requiretty` to the host's sudoers; a run uses no terminal",
    ),
    (
        ("sudo: not found", "sudo: command not found", "sudo: inaccessible or not found"),
        "sudo isn't installed",
        'install it on the host, or log in as root and set become = "none" in the inventory',
    ),
    (
        ("no new privileges", "effective uid is not 0", "must be owned by uid 0", "nosuid"),
        "sudo can't get root's rights there",
        "the host's file system or container takes the setuid bit from sudo; mend that or log in as root",
    ),
    (
        ("password change required", "password has expired", "account has expired", "account validation failure"),
        "the user's account or password has expired",
        "renew it on the host (passwd, chage); key logins stop too until then",
    ),
    (
        ("not currently available", "nologin", "this account is"),
        "the user may not log in",
        "give the user a shell on the host (usermod -s /bin/sh USER), or use another user",
    ),
)
_OF_THE_LOGIN = 6
"""From this entry on the login is at fault, not sudo."""


def wrong_password(host: str, user: str) -> SudoError:
    """sudo asked for the password again."""
    return SudoError(f"{host}: {user} can't become root", why=_REASONS[0][1], remedy=_REASONS[0][2])


def refusal(host: str, user: str, ended: NotRun) -> TransportError:
    """What a shell that ended before the script began means."""
    if ended.ready:
        reached = "the script didn't arrive whole" if ended.status == _NOT_WHOLE else "the shell there ended early"
        return Disconnected(
            f"{host}: the script was not started", why=reached, remedy="run again; nothing of it was executed"
        )
    said = (ended.stderr + "\n" + ended.stdout).replace(PROMPT.decode(), "")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    lowered = said.lower()
    for nth, (signs, why, remedy) in enumerate(_REASONS):
        if any(sign in lowered for sign in signs):
            told = next((line for line in lines if any(sign in line.lower() for sign in signs)), "")
            kind = AuthenticationError if nth >= _OF_THE_LOGIN else SudoError
            what = f"{host}: {user} can't {'log in' if kind is AuthenticationError else 'become root'}"
            return kind(what, why=f"{why}: {told}" if told else why, remedy=remedy.replace("USER", user))
    if ended.status is None:
        return Disconnected(
            f"{host}: the connection ended before the script was started",
            why=lines[-1] if lines else "the other side closed it",
            remedy="run again; nothing of the script was executed",
        )
    return SudoError(
        f"{host}: {user} can't become root",
        why="; ".join(lines[-5:]) or f"the shell there ended with status {ended.status} and said nothing",
        remedy=f"try it by hand: ssh {user}@HOST sudo -n true",
    )
