"""CUDA release → the least driver that comes up to it.

Source: NVIDIA CUDA Toolkit Release Notes, table "CUDA Toolkit and Corresponding Driver Versions", column Linux
x86_64 (docs.nvidia.com/cuda/cuda-toolkit-release-notes); 13.2 and 13.3 from the later editions of the same table.
An update that the table gives a driver of its own stands as "12.9.1"; "12.9" is the first release.

Applications built for an older CUDA of the same major release also start on older drivers ("minor version
compatibility": 11.x from 450, 12.x from 525, 13.x from 580), but not with PTX that must be compiled at run time,
and images from NVIDIA refuse to start there by `NVIDIA_REQUIRE_CUDA=cuda>=…`; so this table is what counts.
"""

from __future__ import annotations

LEAST_DRIVER = {
    "11.0": "450.36.06",
    "11.1": "455.23",
    "11.2": "460.27.03",
    "11.3": "465.19.01",
    "11.4": "470.42.01",
    "11.5": "495.29.05",
    "11.6": "510.39.01",
    "11.7": "515.43.04",
    "11.7.1": "515.48.07",
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.0.1": "525.85.12",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.2.1": "535.86.09",
    "12.2.2": "535.104.05",
    "12.3": "545.23.06",
    "12.3.1": "545.23.08",
    "12.4": "550.54.14",
    "12.4.1": "550.54.15",
    "12.5": "555.42.02",
    "12.5.1": "555.42.06",
    "12.6": "560.28.03",
    "12.6.1": "560.35.03",
    "12.6.2": "560.35.03",
    "12.6.3": "560.35.05",
    "12.8": "570.26",
    "12.8.1": "570.124.06",
    "12.9": "575.51.03",
    "12.9.1": "575.57.08",
    "13.0": "580.65.06",
    "13.0.1": "580.82.07",
    "13.0.2": "580.95.05",
    "13.1": "590.44.01",
    "13.1.1": "590.48.01",
    "13.2": "595.45.04",
    "13.2.1": "595.58.03",
    "13.3": "610.43.02",
}


def least_driver(cuda: str) -> str | None:
    """The least driver for a CUDA release ("12.9", "12.9.1"), None for one that the table doesn't have."""
    return LEAST_DRIVER.get(cuda.removesuffix(".0") if cuda.count(".") == 2 else cuda)
