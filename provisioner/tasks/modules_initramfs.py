"""The initramfs, built anew when it is older than the rule that keeps modules out."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.facts.files import FileState
from provisioner.facts.initramfs import Image, Initramfs, InitramfsProbe
from provisioner.model.action import Guarded, Run
from provisioner.model.change import Change, Kind
from provisioner.model.fact import Facts
from provisioner.quoting import quote
from provisioner.tasks.context import Context

KEPT = ".before-provision"
"""What the old image's name ends with. Boot loaders look for exact names and don't see it."""
MARGIN = 16 * 1024 * 1024
"""Bytes that must stay free on /boot."""


def initramfs(facts: Facts, ctx: Context, rule: FileState | None, requires: tuple[str, ...]) -> Iterator[Change]:
    """One change for all images older than `rule` (the file that keeps modules out); `requires`: its change, when
    there is one. Deferred where /boot is too small for the old image and the new one."""
    found = facts.get(InitramfsProbe())
    if found is None:
        return
    stale = tuple(image for image in found.images if requires or (rule is not None and image.mtime < rule.mtime))
    if not stale:
        return
    change = Change(
        subject="initramfs",
        summary=f"built anew for {', '.join(image.kernel for image in stale)}; the old image is kept",
        kind=Kind.UPDATE,
        actions=tuple(_rebuild(found, image) for image in stale),
        requires=requires,
    )
    needed = _needed(stale)
    if found.free < needed:
        change = change.defer(
            f"/boot has {_mib(found.free)} MiB free, the old and the new images need {_mib(needed)} MiB:"
            " remove kernels that are no longer used",
            ctx.command("apply", "--limit", ctx.host.name),
        )
    yield change


def _needed(images: tuple[Image, ...]) -> int:
    """Bytes: a copy of every old image, and room for the largest new one beside it."""
    return sum(image.size for image in images) + max(image.size for image in images) + MARGIN


def _mib(size: int) -> int:
    return size // (1024 * 1024)


def _rebuild(found: Initramfs, image: Image) -> Guarded:
    path, kernel, kept = quote(image.path), quote(image.kernel), quote(image.path + KEPT)
    if found.tool == "dracut":
        build, check = f"dracut --force {path} {kernel}", f"lsinitrd {path} >/dev/null"
    else:
        build, check = f"update-initramfs -u -k {kernel}", f"lsinitramfs {path} >/dev/null"
    return Guarded(
        actions=(
            Run(f"cp -p {path} {kept}.new && mv -f {kept}.new {kept}", why=f"keep {image.path}"),
            Run(build, why=f"build {image.path}", timeout=600),
        ),
        check=f"test -s {path} && {check}",
        undo=(Run(f"cp -p {kept} {path}.new && mv -f {path}.new {path}", why=f"put the old {image.path} back"),),
        check_undo=f"test -s {path}",
        what=f"the image for kernel {image.kernel}",
    )
