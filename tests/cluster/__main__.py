"""``python -m tests.cluster up|down|status``: a cluster over the lab's hosts, beside the processes that use it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.cluster.apiserver.pods import ready
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import kubectl_path
from tests.cluster.kubelet import GPU
from tests.cluster.machine import Hosted
from tests.lab.host import HOSTS
from tests.lab.lab import Lab

STATE = Path(__file__).parent / ".state"
KUBECONFIG = STATE / "kubeconfig"
PORT = 26443
HOURS = 12.0
LOOK = 4.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description="A test cluster over the lab's hosts.")
    commands = parser.add_subparsers(dest="command", required=True)
    texts = (("up", "start it, if it does not run, for these hosts"), ("serve", "the same in the foreground"))
    for name, text in texts:
        command = commands.add_parser(name, help=text)
        command.add_argument("hosts", nargs="*", choices=[*HOSTS, []], help="default: those that lab-up starts")
    commands.add_parser("down", help="end it")
    commands.add_parser("status", help="whether it runs, and its nodes")
    chosen = parser.parse_args()
    match chosen.command:
        case "up":
            return up(chosen.hosts)
        case "serve":
            return serve(chosen.hosts or [name for name, spec in HOSTS.items() if spec.shown])
        case "down":
            return down()
    return status()


def pid() -> int:
    """Process id of the running cluster; 0 where none runs."""
    try:
        number = int((STATE / "pid").read_text())
        command = Path(f"/proc/{number}/cmdline").read_bytes()
    except (OSError, ValueError):
        return 0
    return number if b"tests.cluster" in command else 0


def up(hosts: list[str]) -> int:
    STATE.mkdir(mode=0o700, exist_ok=True)
    if pid():
        print(f"cluster: runs already, KUBECONFIG={KUBECONFIG}", file=sys.stderr)
        return 0
    KUBECONFIG.unlink(missing_ok=True)
    with (STATE / "log").open("w") as log:
        started = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster", "serve", *hosts],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
        )
    end = time.monotonic() + 90
    while not KUBECONFIG.exists():
        if started.poll() is not None or time.monotonic() > end:
            print(f"cluster: it did not start:\n{(STATE / 'log').read_text()[-3000:]}", file=sys.stderr)
            return 1
        time.sleep(0.1)
    print(f"cluster: runs for {HOURS:g} hours, KUBECONFIG={KUBECONFIG}", file=sys.stderr)
    return 0


def serve(hosts: list[str]) -> int:
    """Runs until it is ended or HOURS are over."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    STATE.mkdir(mode=0o700, exist_ok=True)
    (STATE / "pid").write_text(str(os.getpid()))
    log = STATE / "requests.jsonl"
    log.unlink(missing_ok=True)
    cluster = Cluster.start(PORT, log=log)
    try:
        lab = Lab()
        for name in hosts:
            cluster.add_node(name, machine=Hosted(lab.host(name)), pause=LOOK)
        cluster.add_device_plugin()
        _work(cluster, len(hosts))
        fresh = cluster.kubeconfig(STATE / "kubeconfig.new")
        fresh.replace(KUBECONFIG)
        print(f"cluster: {cluster.ran} on port {cluster.port}", flush=True)
        over.wait(HOURS * 3600)
    finally:
        KUBECONFIG.unlink(missing_ok=True)
        cluster.stop()
        (STATE / "pid").unlink(missing_ok=True)
    return 0


def _work(cluster: Cluster, hosts: int) -> None:
    """Something to lose: training pods on half of the cards, of which a budget lets one go at a time."""
    cluster.add_replicaset("training", hosts, gpus=1, wait=False)
    cluster.add_budget("training", {"app": "training"}, max_unavailable=1)


def down() -> int:
    number = pid()
    if number:
        os.kill(number, signal.SIGTERM)
        end = time.monotonic() + 20
        while pid() and time.monotonic() < end:
            time.sleep(0.1)
    return 0


def status() -> int:
    if not pid() or not KUBECONFIG.exists():
        print("cluster: does not run")
        return 1
    asked = [kubectl_path(), f"--kubeconfig={KUBECONFIG}", "get", "nodes", "-o", "json"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"cluster: {done.stderr.strip()}")
        return 1
    print(f"cluster: KUBECONFIG={KUBECONFIG}")
    for node in json.loads(done.stdout)["items"]:
        cards = (node["status"].get("allocatable") or {}).get(GPU, "0")
        cordoned = ", cordoned" if node["spec"].get("unschedulable") else ""
        print(f"{node['metadata']['name']:8} {'Ready' if ready(node) else 'not ready'}, {cards} cards{cordoned}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
