"""The lock's file: the same text for the same lock, one line a package, errors with lines."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.config.lockfile import read_lock, write_lock
from provisioner.errors import LockError
from provisioner.model.lock import Closure, Lock, LockedPackage

LOCK = Lock(
    (
        Closure(
            distribution="debian13",
            arch="amd64",
            source="nvidia",
            driver="580.95.05",
            flavour="open",
            toolkit="1.18.0",
            top=("nvidia-open", "nvidia-container-toolkit"),
            packages=(
                LockedPackage("nvidia-open", "580.95.05-1", "amd64", "driver"),
                LockedPackage("dkms", "3.0.10-8+deb12u1", "all", "dependency"),
                LockedPackage("nvidia-container-toolkit", "1.18.0-1", "amd64", "toolkit"),
            ),
        ),
        Closure("debian12", "amd64", "nvidia", "580.95.05", "open", "1.18.0", ("nvidia-open",), ()),
    )
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "prod.lock"
    assert read_lock(path) is None
    text = write_lock(LOCK)
    path.write_text(text)
    found = read_lock(path)
    assert found is not None
    assert [closure.distribution for closure in found.closures] == ["debian12", "debian13"]
    assert {package.name for package in found.closures[1].role("driver", "toolkit")} == {
        "nvidia-open",
        "nvidia-container-toolkit",
    }
    assert write_lock(found) == text
    assert sum("580.95.05-1" in line for line in text.splitlines()) == 1
    assert text.startswith("# Written by `provision lock`")


def test_the_order_of_the_run_does_not_show() -> None:
    turned = Lock(
        tuple(
            Closure(
                closure.distribution,
                closure.arch,
                closure.source,
                closure.driver,
                closure.flavour,
                closure.toolkit,
                closure.top,
                tuple(reversed(closure.packages)),
            )
            for closure in reversed(LOCK.closures)
        )
    )
    assert write_lock(turned) == write_lock(LOCK)


word = st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=10)


@given(st.lists(st.builds(LockedPackage, word, word, word, st.sampled_from(["driver", "toolkit", "dependency"]))))
def test_any_name_survives(packages: list[LockedPackage]) -> None:
    lock = Lock((Closure("d", "a", "debian", "1", "open", "2", ("x",), tuple(packages)),))
    (table,) = tomllib.loads(write_lock(lock))["closures"]
    assert [LockedPackage(**each) for each in table["packages"]] == sorted(packages)


def test_a_broken_lock_says_the_line(tmp_path: Path) -> None:
    path = tmp_path / "prod.lock"
    good = write_lock(LOCK)

    def broken(old: str, new: str) -> str:
        assert old in good
        path.write_text(good.replace(old, new))
        with pytest.raises(LockError) as caught:
            read_lock(path)
        return str(caught.value)

    line = next(number for number, text in enumerate(good.splitlines(), 1) if "dkms" in text)
    assert f"prod.lock:{line}:" in broken('role = "dependency"', 'role = "other"')
    assert "lacks version" in broken('version = "3.0.10-8+deb12u1", ', "")
    assert "provision lock" in broken('version = "3.0.10-8+deb12u1", ', "")
    assert "this isn't TOML" in broken("packages = [", "packages = [[")
    assert "unknown key 'tops'" in broken("top =", "tops =")
