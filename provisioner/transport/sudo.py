"""Why a shell on a host did not become root, told from what sudo, or the login, printed instead."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.errors import AuthenticationError, Disconnected, SudoError, TransportError, Unreachable
from provisioner.transport.exchange import NOT_ROOT, PROMPT, NotRun

_NOT_WHOLE = 74


@dataclass(frozen=True, slots=True)
class _Reason:
    """`signs`: lower-case texts, each of which tells it; `remedy` holds USER where the user's name belongs."""

    signs: tuple[str, ...]
    why: str
    remedy: str
    kind: type[SudoError | AuthenticationError] = SudoError


_WRONG = _Reason(
    ("incorrect password attempt", "try again", "maximum 3 incorrect"),
    "the sudo password is wrong",
    "set the right sudo_password in the inventory; it may come from a prompt, the environment or a file",
)
_REASONS = (
    _WRONG,
    _Reason(
        ("a password is required", "no password was provided", "a terminal is required to read the password"),
        "sudo asks for a password",
        "set sudo_password in the inventory, or allow this user to use sudo without one (NOPASSWD)",
    ),
    _Reason(
        ("is not in the sudoers file", "is not allowed to", "may not run sudo", "is not allowed on"),
        "sudo doesn't allow this user to become root",
        "add a rule on the host: echo 'USER ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/USER",
    ),
    _Reason(
        ("must have a tty",),
        "sudo wants a terminal (requiretty in its sudoers)",
        "add `Defaults:USER !requiretty` to the host's sudoers; a run uses no terminal",
    ),
    _Reason(
        ("sudo: not found", "sudo: command not found", "sudo: inaccessible or not found"),
        "sudo isn't installed",
        'install it on the host, or log in as root and set become = "none" in the inventory',
    ),
    _Reason(
        ("no new privileges", "effective uid is not 0", "must be owned by uid 0", "nosuid"),
        "sudo can't get root's rights there",
        "the host's file system or container takes the setuid bit from sudo; mend that or log in as root",
    ),
    _Reason(
        (NOT_ROOT,),
        'it isn\'t root, and the inventory says become = "none"',
        'log in as root, or set become = "sudo" in the inventory',
    ),
    _Reason(
        ("password change required", "password has expired", "account has expired", "account validation failure"),
        "the account or its password has expired",
        "renew it on the host (passwd, chage); key logins stop too until then",
        AuthenticationError,
    ),
    _Reason(
        ("not currently available", "nologin", "this account is"),
        "the user may not log in",
        "give USER a shell on the host (usermod -s /bin/sh USER), or use another user",
        AuthenticationError,
    ),
)


def closed_to_users(said: str) -> bool:
    """Whether a host says that it is starting or going down and lets only root in (pam_nologin)."""
    return "pam_nologin" in said or "System is booting up" in said or "System is going down" in said


def not_yet(host: str, said: str) -> Unreachable:
    """The host will let users in when it has started; that is no matter of keys or rights."""
    first = said.strip().splitlines()[0]
    return Unreachable(f"{host}: nobody but root may log in now", why=first, remedy="try again when the host is up")


def wrong_password(host: str, user: str) -> SudoError:
    """sudo asked for the password again."""
    return SudoError(f"{host}: {user} can't become root", why=_WRONG.why, remedy=_WRONG.remedy)


def refusal(host: str, user: str, ended: NotRun) -> TransportError:
    """What a shell that ended before the script began means."""
    if ended.ready:
        reached = "the script didn't arrive whole" if ended.status == _NOT_WHOLE else "the shell there ended early"
        return Disconnected(
            f"{host}: the script was not started", why=reached, remedy="run again; nothing of it was executed"
        )
    said = (ended.stderr + "\n" + ended.stdout).replace(PROMPT.decode(), "")
    if closed_to_users(said):
        return not_yet(host, said)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for reason in _REASONS:
        told = [line for line in lines if any(sign in line.lower() for sign in reason.signs)]
        if told:
            verb = "log in" if reason.kind is AuthenticationError else "become root"
            why = reason.why if NOT_ROOT in told[0] else f"{reason.why}: {told[0]}"
            return reason.kind(f"{host}: {user} can't {verb}", why=why, remedy=reason.remedy.replace("USER", user))
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
