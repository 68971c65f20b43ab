"""A plan as a person reads it."""

from __future__ import annotations

import re

import pytest

from provisioner.model.change import Change, Kind
from provisioner.model.plan import HostPlan
from provisioner.report import plan as plan_text
from provisioner.report.diff import Style
from provisioner.report.paint import Paint

from . import samples

SITE = """\
Plan  gpu-node · 21 hosts · 34 changes · 16 deferred · 1 refused · 1 can't be told · 1 unreachable

gpu[01-06,08-16]  15 hosts, identical
  ~ containerd         /etc/containerd/config.toml  nvidia handler as default  ! restarts containerd
      @@ -3 +3,2 @@
       [plugins]
      +default_runtime_name = "nvidia"
  … packages/driver    packages  nvidia-open 570.172.08 → 580.95.05
      deferred: needs a drained node, provision upgrade-driver inventories/prod.toml
gpu07  as above, and
  + modules            /etc/modules-load.d/nvidia.conf
      @@ -0,0 +1,2 @@
      +nvidia
      +nvidia_uvm
gpu20  1 host
  i preflight          kernel  6.1.0-20 is older than the installed 6.1.0-22
gpu21  1 host, nothing to change
gpu17  1 host  refused: nothing will be changed here
  ✗ preflight          Secure Boot is on and the module's signer isn't enrolled
      the kernel would refuse the module
      enrol it with mokutil --import FILE, restart, plan again
  ~ containerd         /etc/containerd/config.toml  nvidia handler as default  ! restarts containerd
      (the difference shown for gpu[01-06,08-16])
gpu19  1 host  can't be planned: nothing will be changed here
  ? packages/driver    can't tell packages: dpkg \\x1b[2J broke
gpu18  1 host  unreachable
      gpu18 can't be reached
      10.0.0.18:22 refuses the connection
      check address and port in the inventory
"""


def test_a_site_reads_as_expected() -> None:
    assert plan_text.render(samples.site()) == SITE


def test_colour_changes_nothing_but_colour() -> None:
    painted = plan_text.render(samples.site(), paint=Paint(True))
    assert "\x1b[33m~\x1b[0m" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == SITE


def test_question_and_footer_count_only_what_can_be_done() -> None:
    """Seventeen open changes on hosts that may be changed; the refused host's change isn't among them."""
    assert plan_text.question(samples.site()) == "Apply 17 of 34 changes to 16 hosts?"
    assert plan_text.footer(samples.site()) == (
        "17 of 34 changes can be done now on 16 hosts, 16 deferred, "
        "1 not done because their host is refused or can't be planned."
    )


def test_a_plan_without_changes_says_so() -> None:
    assert plan_text.footer(samples.plan(samples.host(1))) == "Nothing to change."


def test_a_host_that_was_not_read_is_not_a_host_without_changes() -> None:
    gone = HostPlan("gpu09", error="gpu09: can't connect")
    assert plan_text.footer(samples.plan(gone)) == "No host could be read and planned for."
    assert plan_text.footer(samples.plan(samples.host(1), gone)) == (
        "Nothing to change on the others; 1 host could not be read or planned for."
    )


def test_hosts_whose_diff_differs_are_not_grouped() -> None:
    other = Change("/etc/motd", "", Kind.UPDATE, (), before="a\n", after="gpu02\n", task="motd", stage="site")
    one = Change("/etc/motd", "", Kind.UPDATE, (), before="a\n", after="gpu01\n", task="motd", stage="site")
    text = plan_text.render(samples.plan(samples.host(1, one), samples.host(2, other)))
    assert "+gpu01" in text
    assert "+gpu02" in text


def test_as_above_names_the_group_when_another_stands_between() -> None:
    hosts = [samples.host(number, samples.RUNTIME) for number in (1, 2, 3)]
    between = [samples.host(number, samples.MODULES) for number in (4, 5)]
    text = plan_text.render(samples.plan(*hosts, *between, samples.host(6, samples.RUNTIME, samples.DRIVER)))
    assert "gpu06  as gpu[01-03], and" in text


@pytest.mark.parametrize(("style", "lines"), [("full", 41), ("compact", 13), ("none", 0)])
def test_diff_styles(style: Style, lines: int) -> None:
    after = "".join(f"line {number}\n" for number in range(40))
    change = Change("/etc/x", "", Kind.CREATE, (), after=after, task="file", stage="site")
    shown = plan_text.change_lines(change, style, Paint())[1:]
    assert len(shown) == lines
    if style == "compact":
        assert shown[-1].strip() == "… 29 more lines: --diff full"


def test_what_a_diff_must_not_hide() -> None:
    """Line ends, a missing last line feed, escape sequences and bytes that aren't UTF-8 are all visible."""
    change = Change("/x", "", Kind.UPDATE, (), before="a\nb\n", after="a\r\n\x1b[8mb\n\udcff", task="file", stage="s")
    text = "\n".join(plan_text.change_lines(change, "full", Paint()))
    assert "+a\\r" in text
    assert "+\\x1b[8mb" in text
    assert "+\\xff" in text
    assert "\\ No newline at end of file" in text
    assert "\x1b" not in text


def test_hosts_stay_together_though_other_things_run_on_them() -> None:
    """What keeps a change waiting names pods; sixteen busy hosts would be sixteen blocks with one diff each."""

    def busy(number: int, pod: str) -> HostPlan:
        reason = f"restarts containerd, and 1 container ({pod}) would be hurt: drain the node first"
        command = f"provision apply prod.toml --limit gpu{number:02d} --disruptive"
        return samples.host(number, samples.RUNTIME.defer(reason, command))

    text = plan_text.render(samples.plan(busy(1, "a/x"), busy(2, "a/x"), busy(3, "b/y")), "none")
    assert text.splitlines()[2:] == [
        "gpu[01-03]  3 hosts, identical",
        "  … containerd         /etc/containerd/config.toml  nvidia handler as default",
        "      deferred on gpu[01-02]: restarts containerd, and 1 container (a/x) would be hurt: drain the node first",
        "        provision apply prod.toml --limit 'gpu[01-02]' --disruptive",
        "      deferred on gpu03: restarts containerd, and 1 container (b/y) would be hurt: drain the node first",
        "        provision apply prod.toml --limit gpu03 --disruptive",
    ]
    many = plan_text.render(samples.plan(*(busy(number, f"a/{number}") for number in range(1, 9))), "none")
    assert "deferred for similar reasons on 5 more hosts" in many


def test_announced_changes_are_marked() -> None:
    change = Change("/x", "", Kind.UPDATE, (), provisional=True, task="file", stage="s")
    assert "announced only" in "\n".join(plan_text.change_lines(change, "full", Paint()))


def test_verbose_shows_id_and_actions() -> None:
    text = "\n".join(plan_text.change_lines(samples.RUNTIME, "none", Paint(), verbose=True))
    assert "containerd/containerd:/etc/containerd/config.toml  (Guarded)" in text


def test_a_long_summary_is_taken_apart() -> None:
    summary = (
        "added the handler nvidia with the settings of runc; SystemdCgroup as runc has it; the default is nvidia now"
    )
    change = Change("/etc/containerd/config.toml", summary, Kind.UPDATE, (), task="containerd", stage="containerd")
    assert plan_text.change_lines(change, "none", Paint()) == [
        "  ~ containerd         /etc/containerd/config.toml  added the handler nvidia with the settings of runc",
        "      SystemdCgroup as runc has it",
        "      the default is nvidia now",
    ]
