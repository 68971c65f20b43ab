"""Ctrl-C: the first stops orderly, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from provisioner.errors import EXIT_INTERRUPTED
from provisioner.report.paint import SHOW_CURSOR

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Turns SIGINT and SIGTERM into `stop()`; while a question is asked, into KeyboardInterrupt.

    `count` tells how many came. A second one leaves at once with status 130: executions that run on hosts are
    cut, and the next run finds what they left.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self.count = 0
        self._stop = stop
        self._asking = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self._asking:
            raise KeyboardInterrupt
        self.count += 1
        if self.count > 1:
            if os.isatty(2):
                os.write(2, SHOW_CURSOR)
            os._exit(EXIT_INTERRUPTED)
        # A handler runs between any two steps of the main thread, which may hold the locks that `stop` needs.
        threading.Thread(target=self._stop, name="stop", daemon=True).start()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While a person is asked something, Ctrl-C answers it."""
        self._asking = True
        try:
            yield
        finally:
            self._asking = False


@contextmanager
def stoppable(stop: Callable[[], None]) -> Iterator[Interrupts]:
    """Handle the signals so within the block. Must be entered in the main thread."""
    interrupts = Interrupts(stop)
    before = {number: signal.signal(number, interrupts) for number in _SIGNALS}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
