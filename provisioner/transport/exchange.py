"""How a script gets through a pair of pipes to a root shell on a host, and its result back.

The command line is constant and holds no value: everything of ours travels over standard input.

    controller → host   [the sudo password] + MARK + script + "#" MARK
    host → controller   READY … MARK, what the script printed, MARK ":" status     (both streams)

MARK is drawn anew for each execution, so that nothing a script prints can be taken for it, and what login
files or sudo print before it is cut off. The shell runs the script only when it has seen its end: a connection
that is cut while the script travels never leaves half a script running. The script runs in a subshell whose
status comes back as text, so that also a script killed by a signal has a result, and a service that keeps the
pipes open behind it doesn't hold anything up.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Protocol

from provisioner.quoting import quote
from provisioner.transport.executor import Completed

UNKNOWN = "what it did there is unknown: plan again to see"
"""What to do about a script without a result."""
READY = b"provision:ready\n"
PROMPT = b"provision:password:"
NOT_ROOT = "provision: this user isn't root"
_MARK = "provision:begin:"

RECEIVER = (
    "cd /; PROVISION_ANCHOR=$1; export PROVISION_ANCHOR; shift; echo provision:ready; "
    # What stands before the mark is a password that sudo didn't ask for.
    f"while IFS= read -r _n; do case $_n in {_MARK}*) break;; esac; done; "
    "_s=$(cat); exec </dev/null; "
    '_t=${_s%"#$_n"}; if [ "$_t" = "$_s" ]; then exit 74; fi; unset _s; '
    'echo "$_n"; echo "$_n" >&2; '
    '(eval "$_t"); _r=$?; echo "$_n:$_r"; echo "$_n:$_r" >&2'
)
"""What the root shell is given as its program; $1 is the anchor."""


def command(become: str, *, password: bool, anchor: str = "$PPID") -> str:
    """The POSIX sh program that becomes root and runs RECEIVER. `become` is "sudo" or "none"; `anchor` is a shell
    word: the parent of the shell that runs this is the process that serves the connection."""
    receive = f'sh -c "$_p" provision "{anchor}"'
    sudo = f"sudo -S -p {quote(PROMPT.decode())}" if password else "sudo -n"
    start = f"LC_ALL=C; export LC_ALL; _p={quote(RECEIVER)}; "
    otherwise = f"echo {quote(NOT_ROOT)} >&2; exit 77" if become == "none" else f"exec {sudo} -- {receive}"
    return f'{start}if [ "$(id -u)" = 0 ]; then exec {receive}; fi; {otherwise}'


def login_command(become: str, *, password: bool) -> str:
    """`command` as one line that any login shell (sh, csh, fish) takes."""
    return f"exec sh -c {quote(command(become, password=password))}"


class Pipe(Protocol):
    """Three streams of a process somewhere. Moments are `time.monotonic` seconds."""

    def write(self, data: bytes, deadline: float) -> None:
        """Send all of it. Raises TimeoutError after the deadline and OSError when nobody reads any more."""
        ...

    def close_input(self) -> None:
        """Nothing more will be written. Raises OSError."""
        ...

    def read(self, deadline: float) -> tuple[bytes, bytes] | None:
        """What came next on standard output and error; None when both ended. Raises TimeoutError."""
        ...

    def status(self) -> int | None:
        """The exit status, once known."""
        ...


@dataclass(eq=False)
class NotRun(Exception):
    """The shell ended before the script began; `stderr` says why. `ready`: it had become root before."""

    status: int | None
    stdout: str
    stderr: str
    ready: bool


class WrongPassword(Exception):
    """sudo asked a second time."""


class Cut(Exception):
    """The streams ended after the script began and before its status came."""


class _Stream:
    """Collects one stream and finds what stands between the two marks."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._data = bytearray()
        self._begin = -1
        self._seen = 0
        self.status: int | None = None

    def feed(self, chunk: bytes) -> None:
        self._data += chunk
        if self._begin < 0:
            at = self._data.find(self._mark + b"\n", self._seen)
            if at >= 0:
                self._begin = self._seen = at + len(self._mark) + 1
        if self._begin >= 0 and self.status is None:
            at = self._data.find(self._mark + b":", self._seen)
            end = self._data.find(b"\n", at) if at >= 0 else -1
            if end >= 0:
                self.status = int(self._data[at + len(self._mark) + 1 : end])
                del self._data[at:]
        self._seen = max(self._seen, self._begin, len(self._data) - len(self._mark) - 8)

    @property
    def begun(self) -> bool:
        return self._begin >= 0

    @property
    def before(self) -> bytes:
        return bytes(self._data if self._begin < 0 else self._data[: self._begin])

    @property
    def content(self) -> bytes:
        return bytes(self._data[self._begin :])


def converse(pipe: Pipe, script: str, *, password: str | None, timeout: float) -> Completed:
    """Have `script` run at the other end of `pipe`, which runs `command`.

    Raises WrongPassword, NotRun, Cut, and TimeoutError when `timeout` seconds are over. Raises ValueError for a
    script that holds a NUL or a password of several lines.
    """
    if "\0" in script:
        raise ValueError("a script can't hold a NUL character")
    if password is not None and "\n" in password:
        raise ValueError("the sudo password holds a line end")
    started = time.monotonic()
    deadline = started + timeout
    mark = (_MARK + secrets.token_hex(16)).encode()
    body = b"%s\n%s\n#%s" % (mark, script.encode("utf-8", "surrogateescape"), mark)
    out, err = _Stream(mark), _Stream(mark)

    sent = False

    def send(data: bytes) -> None:
        try:
            pipe.write(data, deadline)
            if sent:
                pipe.close_input()
        except TimeoutError:
            raise
        except OSError:
            return  # the other side ended early: reading tells why

    if password is None:
        sent = True
        send(body)
    else:
        send(password.encode("utf-8", "surrogateescape") + b"\n")
    while out.status is None or err.status is None:
        came = pipe.read(deadline)
        if came is None:
            if out.begun or err.begun:
                raise Cut
            noise = [stream.before.decode("utf-8", "replace") for stream in (out, err)]
            raise NotRun(pipe.status(), noise[0], noise[1], READY in out.before)
        out.feed(came[0])
        err.feed(came[1])
        if not sent:
            if READY in out.before:
                sent = True
                send(body)
            elif err.before.count(PROMPT) > 1:
                raise WrongPassword
    return Completed(out.status, out.content, err.content, time.monotonic() - started)
