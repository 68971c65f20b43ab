"""Task `selftest`: the boot self-test installed, enabled, seen to pass once, and its verdict shown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from provisioner.facts.driver import LoadedModules, ModulesOnDiskProbe
from provisioner.facts.gpu import PciProbe
from provisioner.facts.host import IdentityProbe
from provisioner.facts.selftest import STATE, SelfTest, SelfTestProbe
from provisioner.model.action import Run
from provisioner.model.change import Change, Finding, Kind, Note
from provisioner.model.fact import Facts, Known, Probe, Unknown
from provisioner.quoting import words
from provisioner.tasks.bootfiles import (
    PROGRAMS,
    UNITS,
    BootFile,
    disabling,
    enabling,
    file_changes,
    link_probe,
    subjects,
)
from provisioner.tasks.context import Context
from provisioner.tasks.task import Task, task

CONFIG = "/etc/provision/selftest.conf"
TEST_UNIT = "provision-selftest.service"
REPORT_UNIT = "provision-selftest-report.service"
PROGRAM = f"{PROGRAMS}/provision-selftest"

VERSIONED = ("provision-selftest", "fatal_xid.awk", "cuda_check.py")
"""Files whose contents, with the configuration's, are the version of the test: all the verdict depends on."""


@task("selftest")
class SelfTestTask(Task):
    """A test of the cards at every boot, before kubelet, and a report of its verdict to the cluster.

    A card that is proven bad gets its node labelled `gpu-unhealthy=true` and cordoned; see docs/selftest.md. A new
    version of the test, its configuration included, only observes on a host until this task saw it pass there.
    `selftest.deadline` (seconds) bounds the test, `gpu.cards` is the number of cards expected, and
    `selftest.enabled = false` keeps the test from running at boot.

        [[stages.tasks]]
        task = "selftest"
    """

    report_limit: int = 86400

    def files(self, ctx: Context) -> tuple[BootFile, ...]:
        """What lies on the host."""
        deadline = int(ctx.var("selftest.deadline", 90))
        unit = (("directory", PROGRAMS), ("deadline", deadline))
        settings = (
            ("expected_cards", int(ctx.var("gpu.cards") or 0)),
            ("deadline", deadline),
            ("node_name", ctx.host.node or ""),
            ("report_limit", self.report_limit),
        )
        return (
            *(BootFile(f"{PROGRAMS}/{name}", f"selftest/{name}", mode=_mode(name)) for name in _PROGRAMS),
            BootFile(CONFIG, "selftest/selftest.conf", values=settings),
            *(BootFile(f"{UNITS}/{name}", f"selftest/{name}", values=unit) for name in (TEST_UNIT, REPORT_UNIT)),
        )

    def version(self, ctx: Context) -> str:
        """Version of the test as it must be on this host: what provision-selftest computes of itself."""
        by_path = {file.path: file for file in self.files(ctx)}
        paths = [*(f"{PROGRAMS}/{name}" for name in VERSIONED), CONFIG]
        text = "".join(by_path[path].content(ctx) for path in paths)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield from (IdentityProbe(), SelfTestProbe(), PciProbe(), LoadedModules(), ModulesOnDiskProbe())
        yield from (file.probe for file in self.files(ctx))
        yield from (link_probe(TEST_UNIT), link_probe(REPORT_UNIT))

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        if not ctx.var("selftest.enabled", True):
            for unit in (TEST_UNIT, REPORT_UNIT):
                yield from disabling(unit, facts)
            return
        files = tuple(file_changes(self.files(ctx), facts, ctx))
        yield from files
        for unit in (TEST_UNIT, REPORT_UNIT):
            yield from enabling(unit, facts, subjects(files))
        if facts.need(IdentityProbe()).systemd:
            yield from self._verdict(facts, ctx, subjects(files))

    def _verdict(self, facts: Facts, ctx: Context, files: tuple[str, ...]) -> Iterator[Finding]:
        """Run the test where this version of it wasn't seen to pass; say what the last verdict was."""
        last = facts.get(SelfTestProbe()) or SelfTest()
        cards = [device for device in facts.get(PciProbe()) or () if device.is_card]
        if last.disabled:
            yield Note(TEST_UNIT, "the self-test is switched off on this host by /etc/provision/selftest.disabled")
            return
        want = self.version(ctx)
        fresh = last.version == want and last.boot == facts.need(IdentityProbe()).boot and not files
        if not cards or last.trusted == want:
            if cards and fresh and last.result in ("fail", "unknown"):
                yield Note(TEST_UNIT, f"the self-test of this boot says {last.text}")
            return
        change = Change(
            subject="self-test passed",
            summary="run the self-test; from its first pass on, a fail of it is reported to the cluster",
            kind=Kind.RUN,
            actions=(
                Run(
                    f"{words([PROGRAM, '--trust', CONFIG])}\n{_BAD_CARD}",
                    why="test the cards",
                    timeout=int(ctx.var("selftest.deadline", 90)) + 30,
                ),
            ),
            requires=files,
        )
        # Before the driver's stages have run there is nothing to test yet, but there will be.
        change = replace(change, provisional="nvidia" not in (facts.get(LoadedModules()) or {}))
        wait = self._obstacle(facts, ctx)
        if wait is not None:
            yield change.defer(*wait)
        elif fresh and last.result != "pass" and last.age is not None and last.age < JUST_NOW:
            again = ctx.command("apply", "--limit", ctx.host.name)
            yield change.defer(f"the self-test says {last.text}", f"{again} tests again, when that is mended")
        else:
            yield change

    def _obstacle(self, facts: Facts, ctx: Context) -> tuple[str, str] | None:
        """Why the test can't pass yet, and the command that ends that."""
        loaded = (facts.get(LoadedModules()) or {}).get("nvidia")
        disk = facts.get(ModulesOnDiskProbe())
        there = disk.modules.get("nvidia") if disk is not None else None
        limit = ("--limit", ctx.host.name)
        if loaded is not None and there is not None and loaded != there.version:
            reason = f"driver {loaded} is loaded and {there.version} is on disk"
            return reason, ctx.command("upgrade-driver", *limit)
        held = [card for card in facts.get(PciProbe()) or () if card.is_card and card.driver not in ("", "nvidia")]
        if loaded is None and held and not ctx.options.reboot:
            return f"{held[0].driver} holds {held[0].address}: reboot pending", ctx.command("apply", *limit, "--reboot")
        return None

    def describe(self, facts: Facts, ctx: Context) -> Mapping[str, Any]:
        fact = facts.fact(SelfTestProbe())
        if isinstance(fact, Unknown):
            return {"self_test": {"unknown": fact.reason}}
        if not isinstance(fact, Known):
            return {"self_test": None}
        last = fact.value
        return {
            "self_test": {
                "result": last.result or None,
                "reason": last.reason,
                "detail": last.detail,
                "time": last.time,
                "version": last.version,
                "trusted": bool(last.trusted) and last.trusted == last.version,
                "report": last.report or None,
                "checks": {check.name: check.result for check in last.checks},
                "cards": list(last.cards),
            }
        }


JUST_NOW = 180
"""Seconds for which a verdict that is no pass stands; later, `apply` tests again: what was in the way may be mended."""

_BAD_CARD = f"""\
if grep -q '^  "result": "fail"' {STATE}/selftest.json; then
    echo "a card is bad, or pods can't use it:"; cat {STATE}/selftest.json; exit 1
fi
"""
"""A card that is proven bad is a failure of the run. Unknown isn't: the plan keeps the test open, with its reason."""

_PROGRAMS = (
    "provision-selftest",
    "cuda_check.py",
    "fatal_xid.awk",
    "provision-selftest-report",
    "api_request.py",
    "json_paths.awk",
)


def _mode(name: str) -> int:
    return 0o755 if name.startswith("provision-") else 0o644
