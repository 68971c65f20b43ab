"""A stage that disturbs looks again before it begins: work may have begun since the host was read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from provisioner.engine.compile import compile_stage, shell
from provisioner.engine.secrets import Secrets
from provisioner.model.change import Change, Kind
from provisioner.model.result import Status
from provisioner.transport.executor import Completed
from tests.unit.engine.test_rollout import LOUD, QUIET, Fleet

ASKED = "still_idle FILE 'nvidia-persiste nv-hostengine' 'kube-system calico-system'"


def looked(answer: str, folder: Path) -> tuple[int, str]:
    """Status and words of `still_idle` for this answer of the probe."""
    (folder / "answer").write_text(answer)
    script = shell("idle.sh") + ASKED.replace("FILE", "answer") + "\necho idle\n"
    done = subprocess.run(["dash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("@probe 1 0 0 0\n@end 1\n", ""),
        ("@probe 1 0 40 0\nkubelet kubelet\nprocess 12 nvidia-persiste\n@end 1\n", ""),
        ("@probe 1 0 40 0\ncontainer k8s.io a1 container/kube-system/proxy/p\n@end 1\n", ""),
        ("@probe 1 0 40 0\ncontainer k8s.io a1 sandbox/train/llm/\n@end 1\n", ""),
        ("@probe 1 0 40 0\ncontainer k8s.io a2 container/train/llm/main\n@end 1\n", "container k8s.io/a2"),
        ("@probe 1 0 40 0\ncontainer default c1 ///\n@end 1\n", "container default/c1"),
        ("@probe 1 0 40 0\nprocess 4711 pt main thread\n@end 1\n", "process 4711 pt main thread"),
        ("@probe 1 70 0 9\nno answer\n@end 1\n", "what runs can no longer be told"),
        ("", "what runs can no longer be told"),
    ],
)
def test_what_counts_as_work(answer: str, said: str, tmp_path: Path) -> None:
    assert looked(answer, tmp_path) == (75 if said else 0, said)


def test_only_a_stage_that_disturbs_without_consent_looks() -> None:
    change = Change("x", "x", Kind.RUN, ())
    asked = {"run": "r", "who": "w", "generation": "0", "secrets": Secrets()}
    assert "still_idle" in compile_stage([change], idle=True, **asked)  # type: ignore[arg-type]
    assert "still_idle" not in compile_stage([change], **asked)  # type: ignore[arg-type]


def test_a_host_that_works_by_now_is_left_alone_and_says_so() -> None:
    fleet = Fleet(2, QUIET, LOUD)
    seen: list[bool] = []
    for world in fleet.worlds:

        def run(script: str, *, timeout: float, run: object = world.run) -> Completed:
            if "@stage-done" not in script:
                return run(script, timeout=timeout)  # type: ignore[operator, no-any-return]
            seen.append("still_idle" in script)
            busy = Completed(75, b"", b"process 4711 python3\n")
            return busy if seen[-1] else run(script, timeout=timeout)  # type: ignore[operator]

        world.run = run  # type: ignore[method-assign]
    results = fleet.go()
    assert seen == [False, False, True]
    assert results["gpu01"].status is Status.FAILED
    assert "process 4711 python3" in results["gpu01"].message
    assert results["gpu02"].status is Status.STOPPED
