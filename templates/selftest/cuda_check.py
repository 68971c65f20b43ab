#!/usr/bin/env python3
"""Computes one thing on every CUDA device of this host and compares it with the same sum done here.

Needs Python 3.6 and libcuda.so.1, nothing else. Prints one line per device, `CARD {json}`, as soon as it
is known (so that what was learned survives a kill), and at the end `RESULT pass|fail|unknown REASON detail`.

"fail" is said only on evidence against a device: a wrong number, or an error that this kernel, which reads
and writes nothing but its own buffers, cannot cause by itself. Everything else that goes wrong is "unknown".
"""

import argparse
import contextlib
import ctypes
import json
import os
import struct
import sys
from array import array

ELEMENTS = 1 << 18  # 1 MiB per buffer: enough blocks for every multiprocessor, milliseconds of Python
THREADS = 256
KERNEL = b"provision_check"

# PTX is compiled by the driver for whatever device it has, and is compatible with all later ones: sm_50 is
# Maxwell, the oldest that driver branches 470 to 580 run; ISA 6.0 came with CUDA 9.0 (driver 384).
PTX = b"""
.version 6.0
.target sm_50
.address_size 64

.visible .entry provision_check(
    .param .u64 param_x,
    .param .u64 param_y,
    .param .u64 param_out,
    .param .u32 param_a,
    .param .u32 param_n
)
{
    .reg .pred %p<2>;
    .reg .b32 %r<10>;
    .reg .b64 %rd<12>;

    ld.param.u64 %rd1, [param_x];
    ld.param.u64 %rd2, [param_y];
    ld.param.u64 %rd3, [param_out];
    ld.param.u32 %r1, [param_a];
    ld.param.u32 %r2, [param_n];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r6, %r2;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd4, %rd1;
    cvta.to.global.u64 %rd5, %rd2;
    cvta.to.global.u64 %rd6, %rd3;
    mul.wide.u32 %rd7, %r6, 4;
    add.u64 %rd8, %rd4, %rd7;
    add.u64 %rd9, %rd5, %rd7;
    add.u64 %rd10, %rd6, %rd7;
    ld.global.u32 %r7, [%rd8];
    ld.global.u32 %r8, [%rd9];
    mad.lo.u32 %r9, %r1, %r7, %r8;
    st.global.u32 [%rd10], %r9;
DONE:
    ret;
}
\0"""

NO_DEVICE = 100  # also what cuInit says where MIG is on and has no instance
SYSTEM_NOT_READY = 802  # the fabric manager has not brought the NVLink fabric up (yet)
DRIVER_MISMATCH = 803  # "mismatch between the versions of the display driver and the CUDA driver" (cuda.h)

# Errors (numbers and meanings: cuda.h) that are evidence against the device. Not among them, on purpose:
# 2 out of memory and 46 device unavailable (somebody uses it), 218/221/222 (no or an old PTX compiler),
# 304 (operating system), 702 (a watchdog's timeout), 999 (unknown, by its own name).
EVIDENCE = {
    214: "EccUncorrectable",
    220: "NvlinkUncorrectable",
    226: "ErrorContained",
    700: "IllegalAddress",
    714: "HardwareStackError",
    715: "IllegalInstruction",
    716: "MisalignedAddress",
    717: "InvalidAddressSpace",
    718: "InvalidProgramCounter",
    719: "LaunchFailed",
}


class CudaError(Exception):
    """A call of the driver API that did not return CUDA_SUCCESS."""

    def __init__(self, call, code, name):
        super().__init__(f"{call}: {name} ({code})")
        self.code = code


class WrongResult(Exception):
    """The device computed other numbers than this program did."""


class Driver:
    """libcuda.so.1, every call checked."""

    def __init__(self):
        self._lib = ctypes.CDLL("libcuda.so.1")

    def has(self, name):
        return hasattr(self._lib, name)

    def call(self, name, *args):
        code = getattr(self._lib, name)(*args)
        if code != 0:
            raise CudaError(name, code, self._error_name(code))

    def _error_name(self, code):
        text = ctypes.c_char_p()
        if not self.has("cuGetErrorName") or self._lib.cuGetErrorName(code, ctypes.byref(text)) != 0:
            return "CUDA error"
        return text.value.decode("ascii", "replace") if text.value else "CUDA error"


def random_words(count):
    """That many random 32-bit unsigned integers."""
    words = array("I")
    words.frombytes(os.urandom(4 * count))
    return words


def upload(cuda, words):
    """A device buffer with these words; the pointer."""
    pointer = ctypes.c_uint64()
    size = ctypes.c_size_t(4 * len(words))
    source = (ctypes.c_char * (4 * len(words))).from_buffer(words)
    cuda.call("cuMemAlloc_v2", ctypes.byref(pointer), size)
    cuda.call("cuMemcpyHtoD_v2", pointer, source, size)
    return pointer


def compute(cuda):
    """Runs the kernel in the current context on random numbers; raises CudaError or WrongResult."""
    x, y = random_words(ELEMENTS), random_words(ELEMENTS)
    (factor,) = struct.unpack("=I", os.urandom(4))
    factor |= 1
    # The output starts as random words too: a kernel that never ran cannot look right by chance.
    out = random_words(ELEMENTS)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
    cuda.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(KERNEL))
    pointers = [upload(cuda, words) for words in (x, y, out)]
    arguments = [*pointers, ctypes.c_uint32(factor), ctypes.c_uint32(ELEMENTS)]
    parameters = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(a) for a in arguments])
    blocks = (ELEMENTS + THREADS - 1) // THREADS
    cuda.call("cuLaunchKernel", function, blocks, 1, 1, THREADS, 1, 1, 0, None, parameters, None)
    cuda.call("cuCtxSynchronize")
    result = array("I", bytes(4 * ELEMENTS))
    target = (ctypes.c_char * (4 * ELEMENTS)).from_buffer(result)
    cuda.call("cuMemcpyDtoH_v2", target, pointers[2], ctypes.c_size_t(4 * ELEMENTS))
    wrong = [i for i in range(ELEMENTS) if result[i] != (factor * x[i] + y[i]) & 0xFFFFFFFF]
    if wrong:
        first = wrong[0]
        raise WrongResult(
            f"{len(wrong)} of {ELEMENTS} numbers are wrong, the first at {first}:"
            f" {factor} * {x[first]} + {y[first]} gave {result[first]}"
        )
    for pointer in pointers:
        cuda.call("cuMemFree_v2", pointer)
    cuda.call("cuModuleUnload", module)


def describe(cuda, device, card):
    """Adds name and PCI address where the driver gives them."""
    text = ctypes.create_string_buffer(128)
    cuda.call("cuDeviceGetName", text, len(text), device)
    card["name"] = text.value.decode("ascii", "replace")
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        card["uuid"] = os.environ["CUDA_VISIBLE_DEVICES"]
    if cuda.has("cuDeviceGetPCIBusId"):
        cuda.call("cuDeviceGetPCIBusId", text, len(text), device)
        card["pci"] = text.value.decode("ascii", "replace").lower()


def check_card(cuda, index):
    """The verdict on one device, as the dictionary that goes into the result file."""
    card = {"index": index, "result": "pass", "reason": "", "detail": ""}
    device, context = ctypes.c_int(), ctypes.c_void_p()
    try:
        cuda.call("cuDeviceGet", ctypes.byref(device), index)
        describe(cuda, device, card)
        # A context of our own (never the primary one), destroyed whole whatever happened in it.
        cuda.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        compute(cuda)
    except WrongResult as problem:
        card.update(result="fail", reason="WrongResult", detail=str(problem))
    except CudaError as problem:
        if problem.code in EVIDENCE:
            card.update(result="fail", reason=EVIDENCE[problem.code], detail=str(problem))
        else:
            card.update(result="unknown", reason="CudaError", detail=str(problem))
    if context.value:
        # After a fault the context answers with that fault again; it is reported already.
        with contextlib.suppress(CudaError):
            cuda.call("cuCtxDestroy_v2", context)
    return card


def say(line):
    print(line)
    sys.stdout.flush()


def finish(result, reason, detail):
    say(f"RESULT {result} {reason} {detail}")
    return 0


def init_failure(problem):
    """What an error of cuInit, which concerns no single device, means."""
    if problem.code == SYSTEM_NOT_READY:
        return finish("unknown", "SystemNotReady", f"{problem}: is the fabric manager running?")
    if problem.code == DRIVER_MISMATCH:
        return finish("fail", "DriverLibraryMismatch", str(problem))
    if problem.code == NO_DEVICE:
        return finish("unknown", "NoCudaDevice", f"{problem}: MIG without instances, or no access")
    return finish("unknown", "CudaError", str(problem))


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--expect", type=int, default=0, help="number of devices there should be")
    expected = options.parse_args().expect
    os.environ["CUDA_CACHE_DISABLE"] = "1"  # no cache of compiled kernels in root's home
    try:
        cuda = Driver()
    except OSError as problem:
        return finish("unknown", "LibraryMissing", str(problem))
    count = ctypes.c_int()
    try:
        cuda.call("cuInit", 0)
        cuda.call("cuDeviceGetCount", ctypes.byref(count))
    except CudaError as problem:
        return init_failure(problem)
    cards = []
    for index in range(count.value):
        cards.append(check_card(cuda, index))
        say("CARD " + json.dumps(cards[-1], sort_keys=True))
    for result in ("fail", "unknown"):
        bad = [card for card in cards if card["result"] == result]
        if bad:
            card, address = bad[0], bad[0].get("pci", "no PCI address")
            return finish(result, card["reason"], f"card {card['index']} ({address}): {card['detail']}")
    if len(cards) < max(expected, 1):
        return finish("unknown", "CudaSeesFewer", f"CUDA sees {len(cards)} of {expected} cards")
    return finish("pass", "-", f"{len(cards)} cards computed {ELEMENTS} numbers right")


if __name__ == "__main__":
    sys.exit(main())
