"""``python -m tests.vm``: a machine for people, kept by a process of its own that goes on when this one ends."""

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
from typing import Any

from tests.lab.engine import LabError
from tests.lab.paths import CLIENT_KEY, KNOWN_HOSTS, MACHINES, STATE
from tests.vm.engine import refusal
from tests.vm.states import images

NAME = "vm-a"
CARDS = 2
RECORD = STATE / "vm.json"
LOG = STATE / "vm.log"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description="A machine with a kernel of its own.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "up", help=f"build what is missing and start {NAME}, bare with {CARDS} cards; as it is if it runs"
    )
    commands.add_parser("down", help="switch the machine off and forget what it wrote; images and saved states stay")
    commands.add_parser("status", help="whether it runs, and how to log in")
    commands.add_parser("serve", help="what `up` starts: keep the machine until SIGTERM")
    start = time.monotonic()
    try:
        match parser.parse_args().command:
            case "up":
                up()
            case "down":
                down()
            case "serve":
                serve()
            case _:
                return 0 if status() else 1
    except LabError as error:
        print(f"vm: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(f"vm: took {time.monotonic() - start:.1f} s", file=sys.stderr)
    return 0


def up() -> None:
    """Start the keeper and wait until the machine is there."""
    record = kept()
    if record is None or not record["on"]:
        down()
        if refusal():
            raise LabError(refusal())
        images()
        with LOG.open("wb") as log:
            keeper = subprocess.Popen(
                [sys.executable, "-m", "tests.vm", "serve"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=Path(__file__).parents[2],
            )
        try:
            while (record := kept()) is None:
                if keeper.poll() is not None:
                    raise LabError(f"{NAME} did not start:\n{LOG.read_text()[-2000:]}")
                time.sleep(0.1)
        except KeyboardInterrupt:
            keeper.terminate()  # it knows no record yet by which `down` would find it
            keeper.wait()
            raise
    status()


def down() -> None:
    """End the keeper, by its number and only where that is still it; the machine goes with it."""
    record = kept()
    if record is not None:
        os.kill(record["pid"], signal.SIGTERM)
        end = time.monotonic() + 30
        while kept() is not None:
            if time.monotonic() > end:
                raise LabError(f"process {record['pid']} is still there after 30 s; see {LOG}")
            time.sleep(0.1)
    RECORD.unlink(missing_ok=True)


def serve() -> None:
    """Keep a machine until SIGTERM or SIGINT."""
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    machine = images().machine(NAME)
    try:
        machine.load(images().bare, cards=CARDS)
        while not over.wait(0.5):
            record(machine.running())
    finally:
        machine.remove()
        RECORD.unlink(missing_ok=True)


def record(on: bool) -> None:
    """Say that the machine is there, for the other commands."""
    partial = RECORD.with_suffix(".partial")
    partial.write_text(json.dumps({"pid": os.getpid(), "name": NAME, "on": on}))
    partial.rename(RECORD)


def kept() -> dict[str, Any] | None:
    """What the keeper recorded, None where there is none."""
    try:
        found: dict[str, Any] = json.loads(RECORD.read_text())
        words = Path(f"/proc/{found['pid']}/cmdline").read_bytes().split(b"\0")
    except FileNotFoundError:
        return None
    return found if b"tests.vm" in words and b"serve" in words else None


def status() -> bool:
    """Print a line, and how to log in where the machine is on; whether it is."""
    record = kept()
    on = record is not None and bool(record["on"])
    state = "-" if record is None else "running" if on else "off"
    print(f"{NAME}  127.0.0.1:{MACHINES[NAME]}  {state}")
    if on:
        print(f"ssh -F none -i {CLIENT_KEY} -o UserKnownHostsFile={KNOWN_HOSTS} -p {MACHINES[NAME]} ops@127.0.0.1")
    return on


if __name__ == "__main__":
    sys.exit(main())
