"""Versions in the order of dpkg and rpm. The pairs were checked with `dpkg --compare-versions` and rpmdev-vercmp."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.tasks.packaging.versions import deb_compare, is_driver, rpm_compare, upstream

DEB = [
    ("535.183.01-0ubuntu0.22.04.1", "535.183.01-0ubuntu1"),
    ("535.216.03-2~bpo12+1", "535.216.03-2"),
    ("535.216.03-2~bpo12+1", "535.261.03-1"),
    ("1.17.8-1", "1.18.0~rc.1-1"),
    ("1.18.0~rc.1-1", "1.18.0-1"),
    ("9.9", "1:0.1"),
    ("1.0", "1.0a"),
    ("1.0-1", "1.0+dfsg-1"),
    ("20220217+3~deb12u1", "20220217+3"),
]
RPM = [
    ("555.42.02-1.el9", "3:535.183.01-1.el9"),
    ("3:580.82.07-1.el9", "3:580.95.05-1.el9"),
    ("1.0~rc1-1", "1.0-1"),
    ("1.0-1", "1.0^git1-1"),
    ("1.0a-1", "1.0.1-1"),
    ("1.9-1", "1.10-1"),
]


@pytest.mark.parametrize(("less", "more"), DEB)
def test_dpkg(less: str, more: str) -> None:
    assert deb_compare(less, more) < 0 < deb_compare(more, less)
    assert deb_compare(less, less) == 0


@pytest.mark.parametrize(("less", "more"), RPM)
def test_rpm(less: str, more: str) -> None:
    assert rpm_compare(less, more) < 0 < rpm_compare(more, less)
    assert rpm_compare(more, more) == 0


if shutil.which("dpkg"):
    VERSIONS = st.from_regex(r"(1:)?[0-9][0-9a-b.+~]{0,5}(-[0-9a-b.+~]{1,4})?", fullmatch=True)

    @given(VERSIONS, VERSIONS)
    def test_as_dpkg_itself_says(one: str, two: str) -> None:
        order = deb_compare(one, two)
        wanted = "lt" if order < 0 else "gt" if order > 0 else "eq"
        said = subprocess.run(["dpkg", "--compare-versions", one, wanted, two], check=False, capture_output=True)
        assert said.returncode == 0, f"{one} {wanted} {two}"


def test_the_upstream_part() -> None:
    assert upstream("535.216.03-2~bpo12+1") == "535.216.03"
    assert upstream("3:555.42.02-1.el8") == "555.42.02"
    assert upstream("580.126.16-1ubuntu1") == "580.126.16"
    assert upstream("20220217+3~deb12u1") == "20220217+3~deb12u1"
    assert [is_driver(v) for v in ("535.216.03-1", "440.100-1", "20220217+3", "1.17.8-1")] == [True, True, False, False]
