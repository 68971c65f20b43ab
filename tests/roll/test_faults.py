"""What goes wrong on a host: where it leaves the node, and that the node says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from provisioner.model.upgrade import Phase
from tests.roll.scene import ACCOUNT, BROKEN, OPTIONS, Scene, loaded


def test_a_package_that_fails_half_way_is_led_back(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-k")
    source = loaded(made.hosts["gpu-k"])
    host = made.hosts["gpu-k"]
    listed = host.get("/etc/apt/sources.list.d/provision-nvidia.sources").decode()
    host.put("/etc/apt/sources.list.d/more.sources", listed.replace("Components: main", "Components: broken"))
    made.write(BROKEN, components='"main", "broken"')
    report = made.roll()
    host.exec("rm /etc/apt/sources.list.d/more.sources && apt-get update -q", check=True)
    record = report.nodes["gpu-k"]
    assert record.phase is Phase.ROLLED_BACK, record
    assert report.exit_code == 1
    assert "nvidia-kernel-open-dkms" in record.reason, "the reason names the package that failed"
    made.check_clean("gpu-k", source)
    made.check_deletions()


def test_a_card_that_computes_wrong_is_led_back_and_verified(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-k")
    host, source = made.hosts["gpu-k"], loaded(made.hosts["gpu-k"])
    wrong = {
        ("phase-started", "installing"): lambda: host.card.set(cuda="wrong"),
        ("phase-failed", "verifying-host"): host.card.repair,
    }
    report = made.roll(during=wrong)
    record = report.nodes["gpu-k"]
    assert record.phase is Phase.ROLLED_BACK, record
    assert "self-test" in record.reason
    made.check_clean("gpu-k", source)


def test_a_host_that_does_not_come_back_stays_cordoned_and_says_why(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-m", "gpu-l")
    host = made.hosts["gpu-m"]
    options = replace(OPTIONS, reboot="always", reboot_timeout=15.0)
    try:
        report = made.roll(options, during={("phase-started", "installing"): host.never_come_back})
        record = report.nodes["gpu-m"]
        assert record.phase is Phase.BROKEN, record
        assert "did not come back within" in record.reason
        assert "gpu-l" in report.nodes, (report.left_out, report.refused, report.stopped)
        assert report.nodes["gpu-l"].phase is Phase.PENDING, "nothing further is begun"
        assert "gpu-m" in report.stopped
        node = made.cluster.node("gpu-m")
        assert node["spec"]["unschedulable"]
        assert node["metadata"]["labels"]["gpu-unhealthy"] == "true"
        assert "did not come back" in node["metadata"]["annotations"]["provision.dev/gpu-unhealthy-reason"]
    finally:
        host.start()
    # Somebody mends the machine and names it.
    mended = made.roll(limit="gpu-m")
    assert mended.nodes["gpu-m"].phase is Phase.DONE, mended.nodes
    assert "gpu-unhealthy" not in made.cluster.node("gpu-m")["metadata"]["labels"]
    assert not made.cordoned("gpu-m")


def test_a_host_that_comes_back_without_a_card_stays_cordoned(scene: Callable[..., Scene]) -> None:
    """The card is lost with the old driver too, so that the way back can't be verified either."""
    made = scene("gpu-m")
    host = made.hosts["gpu-m"]
    try:
        report = made.roll(
            replace(OPTIONS, reboot="always"),
            during={("phase-started", "rebooting"): lambda: host.card.set(count=1)},
        )
    finally:
        host.card.repair()
    record = report.nodes["gpu-m"]
    assert record.phase is Phase.BROKEN, record
    assert record.back
    assert "1 of 2" in record.reason
    assert made.cordoned("gpu-m")
    assert made.installations("gpu-m")[-1] == record.source, "it has the previous packages"


def test_work_that_nobody_may_end_leaves_the_node_as_it_was(scene: Callable[..., Scene]) -> None:
    """A process without a pod holds a card: it is named, waited for, and never ended."""
    made = scene("gpu-k")
    host, source = made.hosts["gpu-k"], loaded(made.hosts["gpu-k"])
    before = made.installations("gpu-k")
    host.card.set(busy=True)
    pid = host.exec("cat /run/gpu-sim/holder.pid").stdout.strip()
    report = made.roll(replace(OPTIONS, drain_timeout=4.0))
    record = report.nodes["gpu-k"]
    assert record.phase is Phase.FAILED, record
    assert f"by {pid} " in record.reason
    assert host.exec(f"test -d /proc/{pid}").returncode == 0
    host.card.repair()
    made.check_clean("gpu-k", source)
    assert made.installations("gpu-k") == before


def test_the_api_may_be_away_for_a_while(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-k")
    target = made.target()
    report = made.roll(during={("phase-started", "unloading"): lambda: made.cluster.fail_for(8.0)})
    assert report.nodes["gpu-k"].phase is Phase.DONE, report.nodes
    made.check_clean("gpu-k", target)
    assert made.cluster.requests(user=ACCOUNT)
