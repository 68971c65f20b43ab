"""What the boot self-test left on a host: its verdict, whether it is trusted there, and what the report did."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from provisioner.model.fact import Output, Probe

STATE = "/var/lib/provision"
"""Folder with selftest.json, selftest.trusted and selftest-report.json."""
DISABLED = "/etc/provision/selftest.disabled"
"""A file that switches the test off on a host."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the verdict. `result` "pass", "fail" or "unknown"; `reason` a word such as "FatalXid"."""

    name: str
    result: str
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The last verdict. `result` "pass", "fail", "unknown", "off", or "" when the test never ran; `version` of the
    test that gave it; `boot` as in Identity.boot; `time` UTC, ISO 8601. `trusted`: the version that apply saw pass
    here, "" for none. `report`: what the report to the cluster came to ("reported", "observing", "cleared", …).
    `age`: seconds since the verdict was written, by the host's clock, None without one."""

    result: str = ""
    reason: str = ""
    detail: str = ""
    version: str = ""
    boot: str = ""
    time: str = ""
    checks: tuple[Check, ...] = ()
    cards: tuple[dict[str, Any], ...] = ()
    trusted: str = ""
    report: str = ""
    disabled: bool = False
    age: int | None = None

    @property
    def text(self) -> str:
        """For people: "fail (FatalXid: 0000:01:00: Xid 79 …)"."""
        why = ": ".join(part for part in (self.reason, self.detail) if part)
        return f"{self.result or 'never ran'}{f' ({why})' if why else ''}"


@dataclass(frozen=True)
class SelfTestProbe(Probe[SelfTest]):
    """The files of the self-test; absent on a host where it neither ran nor was switched off."""

    @property
    def key(self) -> str:
        return "self-test"

    def script(self) -> str:
        return f"""\
d={STATE}; n=0
[ ! -e {DISABLED} ] || {{ n=1; echo disabled; }}
[ ! -e "$d/selftest.trusted" ] || {{ n=1; printf 'trusted %s\\n' "$(head -n 1 "$d/selftest.trusted")"; }}
for f in selftest-report selftest; do
    [ -e "$d/$f.json" ] || continue
    n=1
    t=$(tr -d '\\n' <"$d/$f.json") || unknown "$d/$f.json can't be read"
    printf '%s %s\\n' "$f" "$t"
done
[ "$n" = 1 ] || absent
[ ! -e "$d/selftest.json" ] || printf 'age %s\\n' "$(($(date +%s) - $(stat -c %Y "$d/selftest.json")))"
"""

    def parse(self, output: Output) -> SelfTest:
        rows = dict(line.partition(" ")[::2] for line in output.text.splitlines())
        verdict, report = (_table(name, rows.get(name)) for name in ("selftest", "selftest-report"))
        return SelfTest(
            result=str(verdict.get("result", "")),
            reason=str(verdict.get("reason", "")),
            detail=str(verdict.get("detail", "")),
            version=str(verdict.get("version", "")),
            boot=f"{verdict['boot_id']}/{verdict.get('boot_start', '')}" if verdict.get("boot_id") else "",
            time=str(verdict.get("time", "")),
            checks=tuple(
                Check(*(str(check.get(key, "")) for key in ("name", "result", "reason", "detail")))
                for check in verdict.get("checks", ())
            ),
            cards=tuple(verdict.get("cards", ())),
            trusted=rows.get("trusted", ""),
            report=str(report.get("outcome", "")),
            disabled="disabled" in rows,
            age=int(rows["age"]) if "age" in rows else None,
        )


def _table(name: str, text: str | None) -> dict[str, Any]:
    """The file's JSON object. Raises ValueError when it holds something else."""
    if not text:
        return {}
    loaded = json.loads(text)
    if not isinstance(loaded, dict):
        raise ValueError(f"{name}.json holds no object")
    return loaded
