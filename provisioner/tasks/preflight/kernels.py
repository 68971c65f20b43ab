"""Will the kernel have a module, now and after the next boot, and will it accept it?"""

from __future__ import annotations

from provisioner.facts.boot import Kernel, Kernels, KernelsProbe, SecureBootProbe, SignersProbe
from provisioner.facts.host import IdentityProbe
from provisioner.model.change import Note, Refusal
from provisioner.model.fact import Facts
from provisioner.tasks.preflight.check import Check, Verdict
from provisioner.tasks.preflight.wanted import Wanted


def modules(facts: Facts, wanted: Wanted) -> Verdict:
    """For the running and the next kernel the module is there, or can be built, or comes in a package.

    With `driver.modules = "prebuilt"` that is only known once a driver is there: then a kernel without a module is
    refused, since a boot into it would leave the host without cards, whatever version the other kernel goes to. What
    `driver.packages` names for that kernel is trusted to bring it.
    """
    kernels = facts.need(KernelsProbe())
    both = own(kernels, facts)
    for kernel in both:
        if has_module(kernel, wanted):
            continue
        which = "next" if kernel is kernels.next else "running"
        if wanted.modules == "prebuilt":
            named = any(kernel.release in name for name in wanted.packages)
            served = any(has_module(other, wanted) or (other.driver and not kernel.driver) for other in both)
            if served and not named:
                return lacks_prebuilt(kernel, which, kernels, wanted)
        elif not kernel.headers:
            return lacks_headers(kernel, which, kernels)
    return None


def own(kernels: Kernels, facts: Facts) -> tuple[Kernel, ...]:
    """The kernels of this system. Where systemd doesn't run, an image is being built, and the kernel that runs is
    the building machine's."""
    if facts.need(IdentityProbe()).systemd:
        return kernels.both
    return (kernels.next,) if kernels.next is not None else ()


def has_module(kernel: Kernel, wanted: Wanted) -> bool:
    """Is the wanted driver's module, of the wanted flavour, on disk for that kernel?"""
    version = bool(kernel.driver) and kernel.driver == (wanted.driver or kernel.driver)
    return version and kernel.flavour in ("", wanted.flavour)


def lacks_prebuilt(kernel: Kernel, which: str, kernels: Kernels, wanted: Wanted) -> Refusal:
    """The driver is there, but its package for this kernel isn't."""
    has = f"it has nvidia {kernel.driver}" if kernel.driver else "there is no nvidia module for it"
    return Refusal(
        subject=f"module for the {which} kernel",
        what=f"no module of driver {wanted.driver} for the {which} kernel {kernel.release}",
        why=f"{has}; {reason(kernel, kernels)}, and would come up without cards",
        remedy=f"install the package with the prebuilt modules for {kernel.release}, or choose a kernel that has them",
    )


def lacks_headers(kernel: Kernel, which: str, kernels: Kernels) -> Refusal:
    """Modules are to be built and can't be: dkms would leave the module out and still end with success."""
    more = ""
    if which == "running" and kernels.next is not None and kernels.next.release != kernel.release:
        more = f" (where that package is gone: boot {kernels.next.release} first)"
    return Refusal(
        subject=f"headers of the {which} kernel",
        what=f"no headers for the {which} kernel {kernel.release}",
        why=f"/lib/modules/{kernel.release}/build isn't there, so dkms can't build the nvidia module"
        + ("" if which == "running" else f"; {reason(kernel, kernels)}"),
        remedy=f"apt-get install linux-headers-{kernel.release}{more}; if the site's packages bring built modules, "
        'set driver.modules = "prebuilt"',
    )


def reason(kernel: Kernel, kernels: Kernels) -> str:
    """Why that kernel matters."""
    return "the host runs it" if kernel is kernels.running else f"it boots next ({kernels.why_next})"


def secure_boot(facts: Facts, wanted: Wanted) -> Verdict:
    """Where only signed modules load, the driver's signer is among those that the kernel accepts."""
    if not facts.need(IdentityProbe()).systemd:
        return None  # the firmware is the building machine's
    state = facts.need(SecureBootProbe())
    if not (state.enforced or state.signed_only):
        return None
    cause = "Secure Boot is on" if state.enforced else "this kernel loads signed modules only"
    signers = facts.need(SignersProbe())
    kernel = facts.need(KernelsProbe()).running
    if has_module(kernel, wanted):
        if signers.accepts(kernel.signer):
            return None
        who = f"it is signed by {kernel.signer!r}, which isn't enrolled" if kernel.signer else "it isn't signed"
        return Refusal(
            subject="Secure Boot",
            what=f"the kernel won't load the module of driver {kernel.driver}",
            why=f"{cause}, and {who}: 'Key was rejected by service'",
            remedy=enrol(signers.dkms_key) if kernel.signer else f"sign it; {enrol(signers.dkms_key)}",
        )
    if wanted.modules == "prebuilt":
        return Note(
            subject="Secure Boot",
            text=f"{cause}: the prebuilt module loads only if its signer is among those the kernel accepts, which "
            f"can be told once it is there ({', '.join(signers.accepted) or 'none is known'})",
        )
    if signers.dkms_key and signers.dkms_enrolled:
        return None
    if not signers.dkms_key:
        why = f"{cause}, and dkms has no key yet: it would make one at the first build, which nobody has enrolled"
    elif signers.dkms_enrolled is None:
        why = f"{cause}, and mokutil doesn't say whether the key {signers.dkms_key} that dkms signs with is enrolled"
    else:
        why = f"{cause}, and the key {signers.dkms_key} that dkms signs with isn't enrolled"
    return Refusal(
        subject="Secure Boot",
        what="the kernel won't load a module that dkms builds",
        why=f"{why}: 'Key was rejected by service'",
        remedy=enrol(signers.dkms_key)
        if signers.dkms_key
        else f"`dkms generate_mok`, then {enrol('/var/lib/dkms/mok.pub')}; or use signed prebuilt modules",
    )


def enrol(key: str) -> str:
    """How a key gets in: only a person at the console can confirm it."""
    return (
        f"`mokutil --import {key or 'CERTIFICATE'}`, reboot, and confirm the enrolment at the console; or switch "
        "Secure Boot off in the firmware"
    )


CHECKS = (
    Check("kernel modules", "is there a module for the kernels that boot?", (KernelsProbe(), IdentityProbe()), modules),
    Check(
        "Secure Boot",
        "will the kernel accept the module?",
        (SecureBootProbe(), SignersProbe(), KernelsProbe(), IdentityProbe()),
        secure_boot,
    ),
)
