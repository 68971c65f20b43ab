"""A far-away host on this machine: a proxy that holds everything back for half a round trip each way.

    python -m tests.bench.delay PORT SECONDS       prints the port that leads to PORT

The kernels of test machines often lack netem. The handshake of TCP itself is not delayed, so a connection through
here takes one round trip less than a real one. A process of its own, so that it doesn't count as the controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def collect() -> None:
        data = b"first"
        while data:
            data = await reader.read(1 << 16)
            held.put_nowait((loop.time() + seconds, data))

    collecting = asyncio.create_task(collect())
    with contextlib.suppress(OSError):
        while True:
            due, data = await held.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                break
            writer.write(data)
            await writer.drain()
    collecting.cancel()
    writer.close()


async def _serve(port: int, round_trip: float) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(
            _pass_on(reader, there_writer, round_trip / 2), _pass_on(there_reader, writer, round_trip / 2)
        )

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def far_away(port: int, round_trip: float) -> Iterator[int]:
    """A port of 127.0.0.1 that leads to `port` there, `round_trip` seconds further away."""
    command = [sys.executable, "-m", "tests.bench.delay", str(port), str(round_trip)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2])))
