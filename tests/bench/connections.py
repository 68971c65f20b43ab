"""What connecting costs: many connections in one run, each doing what a run without changes does.

    python -m tests.bench.connections [INVENTORY] [--connections 40] [--at-once 64] [--far MS]

Without an inventory the hosts are as many logins to an sshd that is started here, --far puts it that many
milliseconds away. With one, its hosts are taken in turn until there are enough connections. Prints wall time, and
processor time and memory of this process, the controller; on the same machine as the hosts the wall time measures
their sshd more than the controller.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from provisioner.model.inventory import Host, Inventory
from provisioner.transport.connect import connector
from tests.bench.delay import far_away
from tests.sshd import server as sshd

SCRIPT_BYTES = 20_000
"""About the size of a merged probe script; as much comes back."""
TARGET_MB = 150


def script() -> str:
    """Comments to the size of a real one, and as much output."""
    return f"# {'x' * 77}\n" * (SCRIPT_BYTES // 80) + f"head -c {SCRIPT_BYTES} /dev/zero"


@contextlib.contextmanager
def hosts_of(path: Path | None, count: int, far: float = 0.0) -> Iterator[tuple[Inventory, list[Host]]]:
    """`count` hosts to connect to."""
    if path is not None:
        from provisioner.config.inventory import load_inventory

        inventory = load_inventory(path)
        yield inventory, list(itertools.islice(itertools.cycle(inventory.hosts), count))
        return
    reason = sshd.why_not()
    if reason:
        raise SystemExit(f"no sshd to measure with: {reason}")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(sshd.running())
        if far:
            port = stack.enter_context(far_away(server.port, far))
            server = replace(server, port=port)
            server.known_hosts.write_text(f"{server.name} {server.host_key}\n")
        hosts = [Host(f"gpu{nth:03}", server.connection()) for nth in range(count)]
        # A fleet's known_hosts: what is looked up must not cost more for every other host in it.
        filler = "".join(f"other{nth}.example {server.host_key}\n" for nth in range(1000))
        server.known_hosts.write_text(filler + server.known_hosts.read_text())
        yield Inventory(Path("bench.toml"), "gpu-node", tuple(hosts)), hosts


def cpu() -> float:
    """Processor seconds of this process, its threads included, its children not."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inventory", nargs="?", type=Path)
    parser.add_argument("--connections", type=int, default=40)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--far", type=int, default=0, metavar="MS")
    options = parser.parse_args()
    with hosts_of(options.inventory, options.connections, options.far / 1000) as (inventory, hosts):
        connect = connector(inventory)
        text = script()
        before = cpu()
        executors = [connect(host) for host in hosts]  # imports the SSH libraries
        importing = cpu() - before
        before, started = cpu(), time.perf_counter()
        with ThreadPoolExecutor(min(options.at_once, len(hosts))) as pool:
            results = list(pool.map(lambda each: each.run(text, timeout=120), executors))
        wall, used = time.perf_counter() - started, cpu() - before
        for executor in executors:
            executor.close()
    assert all(done.rc == 0 and len(done.stdout) == SCRIPT_BYTES for done in results)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    count = len(executors)
    print(f"connections         {sum(each.connections for each in executors)}, {sum(e.execs for e in executors)} execs")
    print(f"wall                {wall:.2f} s")
    if options.far:
        print(f"round trips         {1000 * wall / options.far:.1f}, plus the one of TCP's own handshake")
    print(f"controller CPU      {used:.2f} s, {1000 * used / count:.1f} ms a connection (+ {importing:.2f} s imports)")
    print(f"controller peak RSS {peak:.0f} MB (target: under {TARGET_MB} MB)")


if __name__ == "__main__":
    main()
