"""CDI specifications: which driver version one was generated for."""

from __future__ import annotations

import re

_LIBRARY = re.compile(rb"/lib(cuda|nvidia-ml|nvidia-ptxjitcompiler)\.so\.(\d{3}\.\d+(?:\.\d+)?)(?![\d.])")


def cdi_driver_version(spec: bytes) -> str | None:
    """The driver version of the libraries that a spec mounts, YAML or JSON alike; None where it names none, or several.

    `nvidia-ctk cdi generate` mounts the libraries by their full names (`libcuda.so.580.95.05`), so a spec
    generated for another driver names files that no longer exist: "unresolvable CDI devices", or
    containers that don't start (nvidia-container-toolkit#1239).
    """
    versions = {match[2].decode() for match in _LIBRARY.finditer(spec)}
    return versions.pop() if len(versions) == 1 else None
