"""Modules for the kernels that boot, and Secure Boot. Facts in, exact findings out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from provisioner.facts.boot import Kernel, Kernels, KernelsProbe, SecureBoot, SecureBootProbe, Signers, SignersProbe
from provisioner.facts.host import Identity, IdentityProbe
from provisioner.model.change import Note, Refusal
from provisioner.model.fact import Unknown
from provisioner.tasks.preflight.check import Verdict
from provisioner.tasks.preflight.kernels import CHECKS
from provisioner.tasks.preflight.wanted import Wanted
from tests.unit.tasks.preflight.facts import verdict

CHECK = {check.subject: check for check in CHECKS}
DKMS = Wanted(driver="580.95.05")
PREBUILT = Wanted(driver="580.95.05", modules="prebuilt")
OLD = Kernel("6.1.0-18-amd64")
NEW = Kernel("6.1.0-21-amd64")
WHY = "it is the newest in /boot"


def with_driver(kernel: Kernel, driver: str = "580.95.05", **more: Any) -> Kernel:
    return dataclasses.replace(kernel, driver=driver, **more)


def with_headers(kernel: Kernel) -> Kernel:
    return dataclasses.replace(kernel, headers=True)


def modules(running: Kernel, following: Kernel | None, wanted: Wanted) -> Verdict:
    return verdict(CHECK["kernel modules"], wanted, {KernelsProbe(): Kernels(running, following, WHY)})


def test_headers_of_the_running_kernel_are_missing() -> None:
    assert modules(OLD, with_headers(NEW), DKMS) == Refusal(
        subject="headers of the running kernel",
        what="no headers for the running kernel 6.1.0-18-amd64",
        why="/lib/modules/6.1.0-18-amd64/build isn't there, so dkms can't build the nvidia module",
        remedy="apt-get install linux-headers-6.1.0-18-amd64 (where that package is gone: boot 6.1.0-21-amd64 first); "
        'if the site\'s packages bring built modules, set driver.modules = "prebuilt"',
    )


def test_headers_of_the_next_kernel_are_missing() -> None:
    found = modules(with_headers(OLD), NEW, DKMS)
    assert isinstance(found, Refusal)
    assert found.what == "no headers for the next kernel 6.1.0-21-amd64"
    assert found.why.endswith("; it boots next (it is the newest in /boot)")


@pytest.mark.parametrize(
    ("running", "following", "wanted"),
    [
        (with_headers(OLD), with_headers(NEW), DKMS),
        (with_headers(OLD), None, DKMS),  # no kernel in /boot: the running one decides
        (with_driver(OLD), with_driver(NEW), DKMS),  # built already: headers may be gone
        (with_driver(OLD), with_headers(NEW), DKMS),
        (OLD, NEW, PREBUILT),  # nothing there yet: packages bring it
        (with_driver(OLD, "570.172.08"), with_driver(NEW, "570.172.08"), PREBUILT),
        (with_driver(OLD), None, PREBUILT),
        (with_driver(OLD, "570.172.08"), None, Wanted()),  # no version wanted: what is there will do
    ],
)
def test_modules_are_there_or_can_come(running: Kernel, following: Kernel | None, wanted: Wanted) -> None:
    assert modules(running, following, wanted) is None


def test_an_old_module_does_not_replace_headers() -> None:
    found = modules(with_driver(OLD, "570.172.08"), None, DKMS)
    assert isinstance(found, Refusal)
    assert found.subject == "headers of the running kernel"


def test_a_module_of_the_other_flavour_does_not_replace_headers() -> None:
    found = modules(with_driver(OLD, flavour="proprietary"), None, DKMS)
    assert isinstance(found, Refusal)
    assert modules(with_driver(OLD, flavour="open"), None, DKMS) is None


def test_a_prebuilt_module_is_missing_for_the_next_kernel() -> None:
    assert modules(with_driver(OLD), NEW, PREBUILT) == Refusal(
        subject="module for the next kernel",
        what="no module of driver 580.95.05 for the next kernel 6.1.0-21-amd64",
        why="there is no nvidia module for it; it boots next (it is the newest in /boot), and would come up without "
        "cards",
        remedy="install the package with the prebuilt modules for 6.1.0-21-amd64, or choose a kernel that has them",
    )


def test_a_kernel_without_any_module_is_refused_whatever_version_the_other_goes_to() -> None:
    """A roll would install the new version for the running kernel, and the next boot would be without cards."""
    found = modules(with_driver(OLD, "570.172.08"), NEW, PREBUILT)
    assert isinstance(found, Refusal)
    assert found.what == "no module of driver 580.95.05 for the next kernel 6.1.0-21-amd64"
    named = dataclasses.replace(PREBUILT, packages=("nvidia-open", "linux-modules-nvidia-580-6.1.0-21-amd64"))
    assert modules(with_driver(OLD, "570.172.08"), NEW, named) is None, "its package is wanted"


def test_an_image_being_built_runs_on_somebody_else_s_kernel() -> None:
    image = {IdentityProbe(): Identity("none", "boot", 1, systemd=False)}
    for following, subject in ((None, ""), (NEW, "headers of the next kernel"), (with_headers(NEW), "")):
        found = verdict(CHECK["kernel modules"], DKMS, {**image, KernelsProbe(): Kernels(OLD, following, WHY)})
        assert (found.subject if found else "") == subject
    assert verdict(CHECK["Secure Boot"], DKMS, {**image, SecureBootProbe(): ON, SignersProbe(): Signers()}) is None


def test_unknown_kernels_are_refused() -> None:
    found = verdict(CHECK["kernel modules"], DKMS, {KernelsProbe(): Unknown("modinfo is not there (package kmod)")})
    assert isinstance(found, Refusal)
    assert found.what == "can't tell: is there a module for the kernels that boot?"


ON = SecureBoot(enforced=True, efi=True, lockdown="integrity", signed_only=True)
MOK = "/var/lib/dkms/mok.pub"


def secure(
    signers: Signers | Unknown, wanted: Wanted, running: Kernel = OLD, state: SecureBoot | Unknown = ON
) -> Verdict:
    facts: dict[Any, Any] = {SecureBootProbe(): state, SignersProbe(): signers, KernelsProbe(): Kernels(running)}
    return verdict(CHECK["Secure Boot"], wanted, facts)


def test_secure_boot_off_asks_nothing() -> None:
    off = SecureBoot(enforced=False, efi=True)
    assert secure(Unknown("neither /proc/keys nor mokutil"), DKMS, state=off) is None


def test_unknown_secure_boot_is_refused() -> None:
    found = secure(Signers(), DKMS, state=Unknown("the EFI variables cannot be read"))
    assert isinstance(found, Refusal)
    assert found.what == "can't tell: will the kernel accept the module?"


@pytest.mark.parametrize(
    ("signers", "why"),
    [
        (Signers((), MOK, False), f"the key {MOK} that dkms signs with isn't enrolled"),
        (Signers((), MOK, None), f"mokutil doesn't say whether the key {MOK} that dkms signs with is enrolled"),
        (Signers(), "dkms has no key yet: it would make one at the first build, which nobody has enrolled"),
    ],
)
def test_the_key_of_dkms_must_be_enrolled_before_it_builds(signers: Signers, why: str) -> None:
    found = secure(signers, DKMS)
    assert isinstance(found, Refusal)
    assert found.what == "the kernel won't load a module that dkms builds"
    assert found.why == f"Secure Boot is on, and {why}: 'Key was rejected by service'"
    assert f"`mokutil --import {MOK}`" in found.remedy


def test_an_enrolled_key_of_dkms_is_fine() -> None:
    assert secure(Signers(("DKMS module signing key",), MOK, True), DKMS) is None


def test_the_signer_of_the_module_that_is_there_decides() -> None:
    canonical = Signers(("Canonical Ltd.: Canonical Ltd. Kernel Module Signing", "Debian Secure Boot CA"))
    assert secure(canonical, PREBUILT, with_driver(OLD, signer="Canonical Ltd. Kernel Module Signing")) is None
    found = secure(canonical, PREBUILT, with_driver(OLD, signer="gpu01 Secure Boot Module Signature key"))
    assert isinstance(found, Refusal)
    assert found.what == "the kernel won't load the module of driver 580.95.05"
    assert "signed by 'gpu01 Secure Boot Module Signature key', which isn't enrolled" in found.why
    unsigned = secure(canonical, DKMS, with_driver(OLD))
    assert isinstance(unsigned, Refusal)
    assert "it isn't signed" in unsigned.why


def test_prebuilt_modules_that_are_not_there_yet_are_announced() -> None:
    found = secure(Signers(("Debian Secure Boot CA",)), PREBUILT)
    assert isinstance(found, Note)
    assert "Debian Secure Boot CA" in found.text


def test_a_kernel_that_loads_signed_modules_only_counts_like_secure_boot() -> None:
    found = secure(Signers(), DKMS, state=SecureBoot(enforced=False, efi=False, signed_only=True))
    assert isinstance(found, Refusal)
    assert found.why.startswith("this kernel loads signed modules only")
