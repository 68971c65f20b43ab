"""Which packages are fetched, what is the way back, and what the host told of them."""

from __future__ import annotations

from pathlib import Path

from provisioner.facts.packages import Package, PackageState
from provisioner.model.lock import Closure, LockedPackage
from provisioner.tasks.packaging.apt import Apt
from provisioner.upgrade.prefetch import (
    Cache,
    PackageSet,
    cache,
    prefetch,
    previous_closure,
    previous_set,
    stored,
    target_set,
)
from tests.unit.upgrade.machine import FENCE, Machine

OLD, NEW = "570.158.01", "590.44.01"


def locked(name: str, version: str, role: str = "driver") -> LockedPackage:
    return LockedPackage(name, version, "amd64", role)  # type: ignore[arg-type]


CLOSURE = Closure(
    "debian12",
    "amd64",
    "nvidia",
    NEW,
    "open",
    "1.18.0",
    ("nvidia-open",),
    (
        locked("dkms", "3.0.10-8", "dependency"),
        locked("libcuda1", f"{NEW}-1"),
        locked("libnvidia-container1", "1.18.0-1", "toolkit"),
        locked("nvidia-open", f"{NEW}-1"),
    ),
)
STATE = PackageState(
    "apt",
    {
        name: Package(name, version, "amd64", status)
        for name, version, status in (
            ("libcuda1", f"{OLD}-1", "hi"),
            ("nvidia-open-570", f"{OLD}-1", "ii"),
            ("nvidia-settings", "565.57.01-1", "ii"),
            ("libnvidia-container1", "1.17.8-1", "ii"),
            ("libnvidia-gl", f"{OLD}-1", "rc"),
            ("containerd", "1.6.20", "ii"),
        )
    },
    frozenset({"libcuda1"}),
)


class TestSets:
    def test_the_target_takes_leftovers_of_the_old_driver_along(self) -> None:
        asked = target_set(CLOSURE, STATE, Apt())
        assert asked.name == NEW
        assert [package.name for package in asked.packages] == ["libcuda1", "nvidia-open"]
        assert asked.remove == ("nvidia-open-570",)

    def test_the_way_back_is_what_is_installed_without_what_the_target_brings(self) -> None:
        asked = previous_set(CLOSURE, STATE, OLD)
        assert asked.name == OLD
        assert [(package.name, package.version) for package in asked.packages] == [
            ("libcuda1", f"{OLD}-1"),
            ("nvidia-open-570", f"{OLD}-1"),
            ("nvidia-settings", "565.57.01-1"),
        ]
        assert asked.remove == ("nvidia-open",)

    def test_the_toolkit_has_a_folder_of_its_own(self) -> None:
        asked = target_set(CLOSURE, STATE, Apt(), "toolkit")
        assert asked.name == "toolkit-1.18.0"
        assert asked.packages == (locked("libnvidia-container1", "1.18.0-1", "toolkit"),)
        assert previous_set(CLOSURE, STATE, "1.17.8", "toolkit").packages[0].version == "1.17.8-1"

    def test_pins_of_the_way_back(self) -> None:
        kept = Cache(OLD, "driver", "", packages=previous_set(CLOSURE, STATE, OLD).packages)
        after = PackageState("apt", {**STATE.packages, "libcuda1": Package("libcuda1", f"{NEW}-1", "amd64")})
        back = previous_closure(CLOSURE, kept, after)
        assert (back.driver, back.toolkit) == (OLD, "1.18.0")
        assert {(each.name, each.version) for each in back.role("driver", "toolkit")} == {
            ("libcuda1", f"{OLD}-1"),
            ("nvidia-open-570", f"{OLD}-1"),
            ("nvidia-settings", "565.57.01-1"),
            ("libnvidia-container1", "1.17.8-1"),
        }

    def test_pins_of_a_toolkit_led_back_leave_the_driver_alone(self) -> None:
        kept = Cache("1.17.8", "toolkit", "", packages=(locked("libnvidia-container1", "1.17.8-1", "toolkit"),))
        back = previous_closure(CLOSURE, kept, STATE)
        assert (back.driver, back.toolkit) == (NEW, "1.17.8")
        assert ("libcuda1", f"{OLD}-1") in {(each.name, each.version) for each in back.role("driver")}


class TestAnswer:
    ROWS = (
        ("package", NEW, "libcuda1", f"{NEW}-1", "driver", "amd64", "1000"),
        ("package", NEW, "gcc", "4:12.2.0-3", "dependency", "amd64", "500"),
        ("free", NEW, "900"),
        ("package", OLD, "libcuda1", f"{OLD}-1", "driver", "amd64", "7"),
        ("missing", OLD, "nvidia-open-570", f"{OLD}-1"),
        ("remove", OLD, "nvidia-open"),
    )

    def test_complete(self) -> None:
        found = cache(self.ROWS, NEW, PackageSet(NEW, "driver", ()))
        assert found.ready
        assert found.size == 1500
        assert found.free == 900
        assert [package.role for package in found.packages] == ["driver", "dependency"]
        assert found.folder == f"/var/lib/provision/packages/{NEW}"

    def test_incomplete(self) -> None:
        found = cache(self.ROWS, OLD, PackageSet(OLD, "driver", ()))
        assert not found.ready
        assert f"nvidia-open-570 {OLD}-1" in found.reason
        assert found.remove == ("nvidia-open",)

    def test_nothing_at_all_is_not_ready(self) -> None:
        assert not cache((), OLD, PackageSet(OLD, "driver", ())).ready


APT_CACHE = """
[ "$2" = show ] || exit 0
shift 2
for w; do n=${{w%%=*}}; v=${{w#*=}}; grep -qx "$n" {root}/offers || continue
printf 'Package: %s\\nVersion: %s\\nArchitecture: amd64\\nSize: %s\\nSHA256: %s\\n\\n' $n "$v" "$(cat {root}/size)" \\
    "$(printf '%s %s\\n' $n "$v" | sha256sum | cut -d' ' -f1)"; done
"""
APT_GET = """
note apt-get "$@"
case "$*" in
*' -s '*|-s*) cat {root}/plan ;;
*download*) for w; do case $w in *=*) n=${{w%%=*}}; v=${{w#*=}}
    [ "$(cat {root}/damaged 2>/dev/null)" = $n ] && text=damaged || text="$n $v"
    printf '%s\\n' "$text" >"${{n}}_$(printf %s "$v" | sed s/:/%3a/)_amd64.deb" ;; esac; done ;;
esac
"""
DPKG_DEB = 'for f; do :; done; b=${f##*/}; b=${b%_*}; printf "%s %s" "${b%_*}" "$(echo ${b#*_} | sed s/%3a/:/)"'


def machine(root: Path, *offers: str, plan: str = "", size: int = 100) -> Machine:
    (root / "offers").write_text("".join(f"{name}\n" for name in offers))
    (root / "plan").write_text(plan)
    (root / "size").write_text(str(size))
    commands = {"apt-cache": APT_CACHE.format(root=root), "apt-get": APT_GET.format(root=root), "dpkg-deb": DPKG_DEB}
    return Machine(root, commands)


TARGET = PackageSet(NEW, "driver", (locked("libcuda1", f"{NEW}-1"),), ("nvidia-open-570",))
BEFORE = PackageSet(OLD, "driver", (locked("libcuda1", f"{OLD}-1"),))


class TestHost:
    def test_what_apt_would_need_besides_is_fetched_too(self, tmp_path: Path) -> None:
        plan = f"Inst libcuda1 [{OLD}-1] ({NEW}-1 NVIDIA [amd64])\nInst gcc (4:12.2.0-3 Debian:12 [amd64])\n"
        host = machine(tmp_path, "libcuda1", "gcc", plan=plan)
        got = host.do(prefetch(FENCE, TARGET, BEFORE))
        assert got.target.ready, got.target.reason
        assert ("gcc", "4:12.2.0-3", "dependency") in [(p.name, p.version, p.role) for p in got.target.packages]
        assert got.previous.ready
        assert got.target.remove == ("nvidia-open-570",)
        assert host.do(stored(FENCE, NEW)).packages == got.target.packages
        assert not any("update" in call.split() for call in host.calls), "lists that know everything aren't read anew"

    def test_a_removal_that_nobody_named(self, tmp_path: Path) -> None:
        host = machine(tmp_path, "libcuda1", plan="Remv nvidia-open-570 [1]\nRemv slurm-gpu [2]\n")
        got = host.do(prefetch(FENCE, TARGET, BEFORE))
        assert got.target.reason == "it would also remove slurm-gpu, which the lock doesn't name"
        assert not got.target.ready

    def test_a_version_that_is_gone_has_the_lists_read_anew_once(self, tmp_path: Path) -> None:
        host = machine(tmp_path)
        got = host.do(prefetch(FENCE, TARGET, BEFORE))
        assert got.previous.missing == (f"libcuda1 {OLD}-1",)
        assert sum("update" in call.split() for call in host.calls) == 1

    def test_a_file_that_isnt_what_the_lists_say(self, tmp_path: Path) -> None:
        host = machine(tmp_path, "libcuda1")
        (tmp_path / "damaged").write_text("libcuda1")
        got = host.do(prefetch(FENCE, TARGET, BEFORE))
        assert got.target.missing == (f"libcuda1 {NEW}-1",)

    def test_a_repository_that_doesnt_answer_is_named(self, tmp_path: Path) -> None:
        host = machine(tmp_path, "libcuda1")
        broken = "case $* in *download*) note download; echo 'E: Connection timed out' >&2; exit 100 ;; esac"
        host.command("apt-get", broken)
        got = host.do(prefetch(FENCE, TARGET, BEFORE))
        assert got.target.reason == "the packages could not be fetched: E: Connection timed out"
        assert host.calls == ["download"] * 3, "once more after the lists were read anew, once in all"

    def test_a_file_that_changed_since(self, tmp_path: Path) -> None:
        host = machine(tmp_path, "libcuda1")
        host.do(prefetch(FENCE, TARGET, BEFORE))
        host.state(f"packages/{OLD}/libcuda1_{OLD}-1_amd64.deb").write_text("half of it")
        kept = host.do(stored(FENCE, OLD))
        assert not kept.ready
        assert kept.missing == (f"libcuda1 {OLD}-1",)

    def test_no_room(self, tmp_path: Path) -> None:
        host = machine(tmp_path, "libcuda1", size=10**15)
        got = host.do(prefetch(FENCE, TARGET, BEFORE))
        assert "MiB free below" in got.target.reason
        assert not any("download" in call for call in host.calls)

    def test_the_way_back_stays_what_it_was_at_the_begin_of_the_roll(self, tmp_path: Path) -> None:
        host = machine(tmp_path, "libcuda1", "nvidia-open")
        first = host.do(prefetch(FENCE, TARGET, BEFORE))
        half = PackageSet(OLD, "driver", (locked("libcuda1", f"{NEW}-1"), locked("nvidia-open", f"{NEW}-1")))
        again = host.do(prefetch(FENCE, TARGET, half))
        assert again.previous.packages == first.previous.packages

    def test_sets_of_earlier_rolls_are_removed(self, tmp_path: Path) -> None:
        host = machine(tmp_path, "libcuda1")
        host.state("packages/555.1.1").mkdir(parents=True)
        host.do(prefetch(FENCE, TARGET, BEFORE))
        assert sorted(path.name for path in host.state("packages").iterdir()) == [OLD, NEW]
