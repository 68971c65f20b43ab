"""Images of the early user space in /boot: they carry their own copy of what modprobe must not load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from provisioner.model.fact import Output, Probe


@dataclass(frozen=True, slots=True)
class Image:
    """One image. `size` bytes, `mtime` seconds since the epoch on the host's clock."""

    path: str
    kernel: str
    size: int
    mtime: int


@dataclass(frozen=True, slots=True)
class Initramfs:
    """`tool` that makes images here; `images` of kernels that are installed; `free` bytes where they lie."""

    tool: Literal["update-initramfs", "dracut"]
    images: tuple[Image, ...]
    free: int


@dataclass(frozen=True)
class InitramfsProbe(Probe[Initramfs]):
    """The images and the tool; absent where the host has no tool for them or no image (a container, a kernel
    without one)."""

    @property
    def key(self) -> str:
        return "initramfs"

    def script(self) -> str:
        return r"""
if command -v update-initramfs >/dev/null 2>&1; then t=update-initramfs
elif command -v dracut >/dev/null 2>&1; then t=dracut
else absent
fi
n=0
for d in /lib/modules/*; do
    k=${d##*/}
    for f in "/boot/initrd.img-$k" "/boot/initramfs-$k.img"; do
        [ -e "$f" ] || continue
        n=1
        s=$(stat -L -c '%s %Y' "$f") || unknown "$f cannot be read"
        printf 'image %s %s %s\n' "$f" "$k" "$s"
    done
done
[ "$n" = 1 ] || absent
b=$(df -P -B 1 /boot | awk 'NR == 2 {print $4}')
[ -n "$b" ] || unknown 'df does not say what is free on /boot'
printf 'tool %s\nfree %s\n' "$t" "$b"
"""

    def parse(self, output: Output) -> Initramfs:
        rows = [line.split() for line in output.text.splitlines()]
        single = {row[0]: row[1] for row in rows if len(row) == 2}
        images = tuple(Image(row[1], row[2], int(row[3]), int(row[4])) for row in rows if row[0] == "image")
        return Initramfs("dracut" if single["tool"] == "dracut" else "update-initramfs", images, int(single["free"]))
