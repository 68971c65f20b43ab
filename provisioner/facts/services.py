"""systemd units of a host, and whether a service runs with what now lies on the disk."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe
from provisioner.quoting import quote, words

STAMPS = "/var/lib/provision/stamps"
"""Folder on a host: one file per unit with the sums of its inputs as they were at its last restart by us."""


def inputs_script(paths: tuple[str, ...]) -> str:
    """sh commands that print one line "SHA256  PATH" for each path, "absent  PATH" where nothing is.

    A folder counts by the names and contents of the regular files below it.
    """
    return f"""\
for f in {words(paths)}; do
    if [ -d "$f" ]; then
        s=$(find -L "$f" -type f -exec sha256sum {{}} + 2>/dev/null | LC_ALL=C sort | sha256sum); s=${{s%% *}}
    elif [ -e "$f" ]; then s=$(sha256sum <"$f") || exit 1; s=${{s%% *}}
    else s=absent
    fi
    printf '%s  %s\\n' "$s" "$f"
done
"""


def stamp_path(unit: str) -> str:
    """Where the stamp of a unit lies."""
    return f"{STAMPS}/{unit}"


@dataclass(frozen=True, slots=True)
class Unit:
    """A systemd unit. `load` as `systemctl show` says ("loaded", "masked", "bad-setting", "" when systemd doesn't
    run); `enabled` as `systemctl is-enabled` says ("enabled", "disabled", "static", "masked", "indirect", …);
    `active` "active", "inactive", "failed", "activating", … or "" when systemd doesn't run; `reload_needed`: its
    files changed since systemd read them; `started` seconds since the epoch on the host's clock, None when it
    doesn't run; `fragment` the unit file; `drop_ins` the files that add to it."""

    enabled: str
    load: str = ""
    active: str = ""
    sub: str = ""
    reload_needed: bool = False
    started: float | None = None
    fragment: str = ""
    drop_ins: tuple[str, ...] = ()

    @property
    def is_enabled(self) -> bool:
        """Will something start it at boot? "enabled-runtime" ends with this boot. Static and generated units can't
        be enabled; they count as they are."""
        return self.enabled in ("enabled", "static", "indirect", "generated", "alias", "linked")

    @property
    def masked(self) -> bool:
        return self.enabled.startswith("masked") or self.load == "masked"

    @property
    def runs(self) -> bool:
        return self.active in ("active", "reloading", "activating")


@dataclass(frozen=True)
class UnitProbe(Probe[Unit]):
    """State of one unit; absent when no unit file of that name exists. Where systemd doesn't run (an image being
    built), `systemctl is-enabled` still reads the links, and the running state is empty."""

    unit: str

    @property
    def key(self) -> str:
        return f"unit {self.unit}"

    def script(self) -> str:
        return f"""\
u={quote(self.unit)}
command -v systemctl >/dev/null 2>&1 || unknown 'there is no systemctl on this host'
e=$(bounded 10 systemctl is-enabled "$u" 2>"$_dir/enabled.err")
case $e in
'' | not-found)
    grep -q 'No such file\\|not found\\|does not exist\\|not-found' "$_dir/enabled.err" || [ "$e" = not-found ] || {{
        [ -s "$_dir/enabled.err" ] && cat "$_dir/enabled.err" >&2 && exit 70
        unknown "systemctl doesn't say whether $u is enabled"; }}
    e=not-found ;;
esac
printf 'Enabled=%s\\n' "$e"
if [ ! -d /run/systemd/system ]; then
    [ "$e" != not-found ] || absent
    exit 0
fi
bounded 10 systemctl show -p LoadState,ActiveState,SubState,NeedDaemonReload,FragmentPath,DropInPaths \\
    -p ExecMainStartTimestampMonotonic,InactiveExitTimestampMonotonic "$u" >"$_dir/unit" \\
    || unknown "systemd doesn't answer about $u"
if [ "$e" = not-found ] && grep -qx 'LoadState=not-found' "$_dir/unit"; then absent; fi
cat "$_dir/unit"
read -r up rest </proc/uptime
printf 'Now=%s\\nUptime=%s\\n' "$(date +%s.%N)" "$up"
"""

    def parse(self, output: Output) -> Unit:
        values = dict(line.split("=", 1) for line in output.text.splitlines() if "=" in line)
        ticks = int(values.get("ExecMainStartTimestampMonotonic") or 0) or int(
            values.get("InactiveExitTimestampMonotonic") or 0
        )
        active = values.get("ActiveState", "")
        started = None
        if ticks and active in ("active", "reloading", "activating"):
            started = float(values["Now"]) - float(values["Uptime"]) + ticks / 1e6
        return Unit(
            enabled=values["Enabled"],
            load=values.get("LoadState", ""),
            active=active,
            sub=values.get("SubState", ""),
            reload_needed=values.get("NeedDaemonReload") == "yes",
            started=started,
            fragment=values.get("FragmentPath", ""),
            drop_ins=tuple(values.get("DropInPaths", "").split()),
        )


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a service reads. `now` the sums of its inputs, one line each; `stamp` the same text as it was at the
    last restart by us, None when there is none; `changed` when an input was last changed (status change time, so
    that a file unpacked with an old date counts), seconds since the epoch on the host's clock, 0 without any."""

    now: str
    stamp: str | None
    changed: float


@dataclass(frozen=True)
class InputsProbe(Probe[Inputs]):
    """The inputs of a unit against its stamp."""

    unit: str
    paths: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"inputs of {self.unit}"

    def script(self) -> str:
        return f"""\
s={quote(stamp_path(self.unit))}
if [ -r "$s" ]; then echo stamp; cat "$s"; else echo none; fi
echo changed
for f in {words(self.paths)}; do [ -e "$f" ] && find -L "$f" -printf '%C@\\n' 2>/dev/null; done | sort -n | tail -n 1
echo now
{inputs_script(self.paths)}"""

    def parse(self, output: Output) -> Inputs:
        lines = output.text.splitlines(keepends=True)
        words_at = {word: number for number, line in enumerate(lines) if (word := line.strip()) in ("changed", "now")}
        before = lines[1 : words_at["changed"]]
        when = "".join(lines[words_at["changed"] + 1 : words_at["now"]]).strip()
        return Inputs(
            now="".join(lines[words_at["now"] + 1 :]),
            stamp="".join(before) if lines[0].strip() == "stamp" else None,
            changed=float(when or 0),
        )
