"""Whether a guard of a `command` task holds."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe
from provisioner.quoting import quote


@dataclass(frozen=True)
class GuardProbe(Probe[bool]):
    """Does this sh test hold (status 0)? It must only read. Unknown when it doesn't end in `timeout` seconds, or
    when a command in it can't be found or executed (status 126, 127)."""

    test: str
    timeout: int = 20

    @property
    def key(self) -> str:
        first = self.test.strip().splitlines()[0] if self.test.strip() else ""
        return f"guard `{first}`"

    def script(self) -> str:
        return f"""\
bounded {self.timeout} sh -c {quote(self.test)} >/dev/null
r=$?
case $r in
0) echo yes ;;
75) unknown "the guard did not end within {self.timeout} s" ;;
126 | 127)
    [ -s "$_b.err" ] && tail -n 1 "$_b.err" >&2 && exit 70
    unknown 'the guard names a command that is not there' ;;
*) echo no ;;
esac
"""

    def parse(self, output: Output) -> bool:
        return output.text.split()[-1:] == ["yes"]
