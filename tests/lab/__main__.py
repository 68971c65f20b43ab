"""``python -m tests.lab``: the lab's command line."""

from __future__ import annotations

import argparse
import sys
import time

from tests.lab.engine import LabError
from tests.lab.host import HOSTS
from tests.lab.lab import Lab, make_keys
from tests.lab.paths import CLIENT_KEY, KNOWN_HOSTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="Docker hosts with simulated cards.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("up", "build what is missing and start the hosts, as they are"),
        ("reset", "make hosts pristine"),
    ):
        commands.add_parser(name, help=text).add_argument("hosts", nargs="*", choices=[*HOSTS, []])
    commands.add_parser("down", help="remove all hosts; images and caches stay")
    commands.add_parser("purge", help="remove hosts, images and caches")
    commands.add_parser("status", help="hosts, ports and whether they run")
    commands.add_parser("key", help="make the keys and print how to log in")
    chosen = parser.parse_args()
    lab = Lab()
    start = time.monotonic()
    try:
        match chosen.command:
            case "up":
                lab.up(*chosen.hosts)
                status(lab)
            case "reset":
                lab.reset(*chosen.hosts)
                status(lab)
            case "down":
                lab.down()
            case "purge":
                lab.purge()
            case "status":
                status(lab)
            case "key":
                make_keys()
                print(f"ssh -F none -i {CLIENT_KEY} -o UserKnownHostsFile={KNOWN_HOSTS} -p PORT ops@127.0.0.1")
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    print(f"lab: {chosen.command} took {time.monotonic() - start:.1f} s", file=sys.stderr)
    return 0


def status(lab: Lab) -> None:
    for host in lab.hosts():
        state = "running" if host.running() else "stopped" if host.exists() else "-"
        print(f"{host.name:8} 127.0.0.1:{host.port}  {state:8} {host.spec.what}")


if __name__ == "__main__":
    sys.exit(main())
