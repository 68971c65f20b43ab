"""How a run's end reads, failures above all."""

from __future__ import annotations

from dataclasses import replace

from provisioner.model.change import Change
from provisioner.model.result import HostResult, Outcome, Status
from provisioner.report import hints, recap
from provisioner.report.hints import Invocation

from . import samples

CALL = Invocation("apply", "inventories/prod.toml", ("--limit", "h100", "--set", "gpu.cards=8"))

FAILED = """\
HOST           STATUS   CHANGED  FAILED  EXECS  TIME
gpu03          failed         1       1      3   12s  containerd  failed: nvidia handler as default, restored
gpu[01-02,04]  changed        1       0      3   11s  1 deferred
3 changes on 3 hosts deferred: needs a drained node
  provision upgrade-driver inventories/prod.toml

gpu03  containerd  failed: nvidia handler as default, restored
  | containerd: starting
  | 10%
  | 20%
  | containerd: \\x1b[31mfailed\\x1b[0m to load plugin

1 failed of 4 hosts. Journal: /home/ada/.local/state/provision/prod/20261130T164205-3f9a/journal.jsonl
Again for those alone: provision apply inventories/prod.toml --set gpu.cards=8 --limit failed@last
"""


def test_a_failure_stays_on_the_screen_with_its_output() -> None:
    output = "containerd: starting\r\n10%\r20%\ncontainerd: \x1b[31mfailed\x1b[0m to load plugin\n\n"
    hosts = [samples.changed(1), samples.changed(2, 11.0), samples.broken(3, output), samples.changed(4)]
    assert recap.render(samples.result(*hosts, exit_code=1), CALL) == FAILED


def test_only_the_last_twenty_lines() -> None:
    output = "".join(f"line {number}\n" for number in range(50))
    shown = [line for line in recap.failure(samples.broken(1, output)) if line.startswith("  | ")]
    assert shown[0] == "  | line 30"
    assert len(shown) == 20


def test_an_unchanged_run_is_two_lines() -> None:
    hosts = [HostResult(f"n{number}", Status.OK, execs=1, connections=1, seconds=0.41) for number in (1, 2, 3)]
    assert recap.render(samples.result(*hosts), CALL) == (
        "HOST    STATUS  CHANGED  FAILED  EXECS  TIME\nn[1-3]  ok            0       0      1  0.4s\n"
    )


def test_refused_and_unreachable_hosts_say_why_once() -> None:
    refused = HostResult(
        "gpu17", Status.REFUSED, refusals=(samples.SECURE_BOOT,), message=samples.SECURE_BOOT.what, execs=1
    )
    away = HostResult("gpu18", Status.UNREACHABLE, message=samples.UNREACHABLE)
    text = recap.render(samples.result(refused, away, exit_code=1), CALL)
    details = text.split("\n\n", 1)[1]
    assert details.count(samples.SECURE_BOOT.what) == 1
    assert samples.SECURE_BOOT.remedy in details
    assert "10.0.0.18:22 refuses the connection" in details
    assert "1 unreachable, 1 refused of 2 hosts" in details


def test_what_is_still_open_after_success_is_named() -> None:
    host = HostResult(
        "gpu01",
        Status.FAILED,
        (Outcome(samples.RUNTIME, ok=True),),
        left=(samples.RUNTIME,),
        message="still different after it was done: containerd/containerd:/etc/containerd/config.toml",
    )
    text = recap.render(samples.result(host, exit_code=1), CALL)
    assert "failed: still different after it was done" in text
    assert "still open: containerd /etc/containerd/config.toml" in text


def test_an_interrupted_run_names_the_command_to_go_on_with() -> None:
    stopped = HostResult("gpu01", Status.STOPPED, message="interrupted before this host was done")
    text = recap.render(samples.result(stopped, exit_code=130, interrupted=True), CALL)
    assert text.endswith(
        "Interrupted. To go on: provision apply inventories/prod.toml --limit h100 --set gpu.cards=8\n"
    )


def test_what_waits_is_told_once_for_all_hosts() -> None:
    def busy(number: int, pod: str) -> tuple[str, Change]:
        host = f"gpu{number:02d}"
        reason = f"restarts containerd, and 1 container ({pod}) would be hurt: drain the node first"
        return host, samples.RUNTIME.defer(reason, f"provision apply prod.toml --limit {host} --disruptive")

    assert hints.waiting([busy(1, "a/x"), busy(2, "b/y"), ("gpu03", samples.DRIVER)]) == [
        "2 changes on 2 hosts deferred: restarts containerd, and 1 container would be hurt: drain the node first",
        "  provision apply prod.toml --limit 'gpu[01-02]' --disruptive",
        "1 change on 1 host deferred: needs a drained node",
        "  provision upgrade-driver inventories/prod.toml",
    ]


def test_pending_restart_is_said() -> None:
    host = replace(samples.changed(1), reboot_pending=True)
    text = recap.render(samples.result(host), CALL)
    assert "restart pending on gpu01" in text


def test_outputs_of_a_command_are_grouped() -> None:
    def said(name: str, output: str) -> HostResult:
        return HostResult(name, Status.CHANGED, (Outcome(samples.MODULES, ok=True, output=output),))

    text = recap.outputs(samples.result(said("gpu01", "550\n"), said("gpu02", "550\n"), said("gpu03", "535\n")))
    assert text == "gpu[01-02]:\n  550\n\ngpu03:\n  535\n\n"
