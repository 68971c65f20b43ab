"""PCI devices that look like NVIDIA cards: their configuration space, answered to QEMU over a socket.

QEMU's ``x-pci-proxy-dev`` asks another process about a PCI device. The protocol is private to QEMU (the "x-" says so)
and read from its sources (hw/remote): header ``int32 command, int32 flag, uint64 size``, little-endian, then the
payload. The configuration space has 256 bytes, the BARs read 0: enough for the kernel to find the device and bind a
driver, and for ``lspci``.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

_HEADER = struct.Struct("<iiQ")
_ACCESS = struct.Struct("<IIi")
_RETURN = 1
#: The BARs' accesses are 4 and 5, which are answered with 0 as all that isn't named here.
_CONFIG_WRITE, _CONFIG_READ, _RESET = 2, 3, 7
#: Set a system's memory layout, set an interrupt's file descriptor: QEMU waits for no answer to these.
_SILENT = (0, 6)

VENDOR, H100_PCIE = 0x10DE, 0x2331
#: Bytes that the guest may write: the command register and the interrupt line.
_WRITABLE = frozenset((0x04, 0x05, 0x3C))


class Card:
    """One card. ``end`` is the socket that QEMU gets; ``close`` ends the thread that answers at the other one."""

    def __init__(self, index: int) -> None:
        self.index = index
        #: A card that fell off the bus answers every read with all bits set.
        self.lost = False
        self._space = _configuration()
        self.end, self._own = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        threading.Thread(target=self._serve, name=f"card{index}", daemon=True).start()

    def close(self) -> None:
        self.end.close()
        # Wakes the thread, which closes its end; it has done so already where QEMU is gone.
        with contextlib.suppress(OSError):
            self._own.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with self._own:
            while header := self._read(_HEADER.size):
                command, _, size = _HEADER.unpack(header)
                payload = self._read(size)
                if command in _SILENT:
                    continue
                value = self._answer(command, payload)
                try:
                    self._own.sendall(_HEADER.pack(_RETURN, 0, 8) + struct.pack("<Q", value))
                except OSError:
                    return

    def _read(self, size: int) -> bytes:
        """Exactly ``size`` bytes; nothing at the end. File descriptors sent along are closed by the kernel."""
        data = b""
        while len(data) < size:
            try:
                part = self._own.recv(size - len(data))
            except OSError:
                return b""
            if not part:
                return b""
            data += part
        return data

    def _answer(self, command: int, payload: bytes) -> int:
        if command == _RESET:
            self._space = _configuration()
        if command not in (_CONFIG_READ, _CONFIG_WRITE):
            return 0
        address, value, length = _ACCESS.unpack(payload[: _ACCESS.size])
        if command == _CONFIG_READ:
            if self.lost:
                return int((1 << 8 * length) - 1)
            return int.from_bytes(self._space[address : address + length], "little")
        for at, byte in enumerate(value.to_bytes(4, "little")[:length], address):
            if at in _WRITABLE:
                self._space[at] = byte
        return 0


def _configuration() -> bytearray:
    """The 256 bytes of an H100 that was just switched on: no memory, no interrupt, no capabilities."""
    space = bytearray(256)
    struct.pack_into("<HHHH", space, 0x00, VENDOR, H100_PCIE, 0, 0)
    # Revision a1, class 03 02 00: 3D controller.
    space[0x08:0x0C] = bytes((0xA1, 0x00, 0x02, 0x03))
    struct.pack_into("<HH", space, 0x2C, VENDOR, 0x1626)
    return space
