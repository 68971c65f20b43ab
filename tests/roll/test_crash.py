"""The controller dies over SSH, again and again in one roll; each time another machine goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from tests.lab import LabHost
from tests.roll.scene import Scene, loaded, until


def running(name: str) -> Callable[[LabHost], bool]:
    """Does such a process run on the host?"""
    return lambda host: host.exec(f"pgrep -x {name}").returncode == 0


def unloaded(host: LabHost) -> bool:
    return loaded(host) == ""


def down(host: LabHost) -> bool:
    return not host.running()


class Controllers:
    """Controllers one after the other; each has a state folder of its own, as another machine would. None outlives
    the block."""

    def __init__(self, made: Scene, name: str, folder: Path) -> None:
        self.made, self.name, self.folder = made, name, folder
        self.number = 0
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def start(self, *arguments: str) -> None:
        self.number += 1
        self.made.marks["PROVISION_STATE_DIR"] = str(self.folder / f"machine-{self.number}")
        self.process = self.made.start(*arguments)

    def said(self) -> str:
        return (self.made.site.folder / "stderr").read_text()[-3000:]

    def kill_at(self, phase: str, seen: Callable[[LabHost], bool] | None = None) -> None:
        """Kill it when the node is recorded to be in this phase, and `seen` is so on the host. It may have come to the
        next phase by the time that the signal arrives."""
        assert self.process is not None
        process = self.process

        def there() -> bool:
            assert process.poll() is None, f"it ended before {phase}: {self.said()}"
            return self.made.record(self.name).get("phase") == phase

        until(there, f"{self.name} is {phase}: {self.said()}")
        if seen is not None:
            host = self.made.hosts[self.name]
            until(lambda: seen(host), f"that on {self.name} at {phase}", seconds=30)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        left = self.made.record(self.name)
        time.sleep(0.1)
        assert self.made.record(self.name) == left, "nothing but the controller moves a node on"

    def waits(self, seconds: float) -> None:
        """It goes on for so long and neither ends nor moves the node."""
        assert self.process is not None
        phase = self.made.record(self.name).get("phase")
        with pytest.raises(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        assert self.made.record(self.name).get("phase") == phase, self.said()

    def end(self) -> int:
        assert self.process is not None
        return self.process.wait(300)


def test_killed_at_twelve_points_and_resumed_elsewhere(scene: Callable[..., Scene], tmp_path: Path) -> None:
    made = scene("gpu-k")
    made.cluster.add_replicaset("train", 1, gpus=1)
    target, before = made.target(), made.installations("gpu-k")
    points: list[tuple[str, Callable[[LabHost], bool] | None]] = [
        ("locking", None),
        ("cordoning", None),
        ("evicting", None),
        ("stopping-clients", None),
        ("unloading", unloaded),
        ("installing", None),
        ("installing", running("dpkg")),
        ("loading", None),
        ("verifying-host", None),
        ("starting-clients", None),
        ("verifying-cluster", None),
        ("uncordoning", None),
    ]
    with Controllers(made, "gpu-k", tmp_path) as controllers:
        controllers.start()
        for phase, seen in points:
            controllers.kill_at(phase, seen)
            controllers.start("--resume")
        assert controllers.end() == 0, controllers.said()
    assert made.record("gpu-k")["phase"] == "done"
    made.check_clean("gpu-k", target)
    assert made.installations("gpu-k") == [*before, target], "a node is never upgraded twice"
    made.check_deletions()


def test_killed_around_a_restart_and_on_the_way_back(scene: Callable[..., Scene], tmp_path: Path) -> None:
    made = scene("gpu-m")
    host, source, before = made.hosts["gpu-m"], loaded(made.hosts["gpu-m"]), made.installations("gpu-m")
    target = made.target()
    host.card.set(cuda="wrong")
    with Controllers(made, "gpu-m", tmp_path) as controllers:
        controllers.start("--reboot", "always")
        controllers.kill_at("rebooting")
        # Down until the test starts it: the next one finds a host that doesn't answer.
        host.never_come_back()
        controllers.start("--resume")
        controllers.kill_at("rebooting", down)
        controllers.start("--resume")
        controllers.waits(3)
        host.start()
        until(lambda: made.record("gpu-m").get("back"), f"the self-test failed: {controllers.said()}")
        controllers.kill_at("installing")
        host.card.repair()
        controllers.start("--resume")
        assert controllers.end() == 1, controllers.said()
    assert made.record("gpu-m")["phase"] == "rolled-back", made.record("gpu-m")
    made.check_clean("gpu-m", source)
    assert made.installations("gpu-m") == [*before, target, source]
