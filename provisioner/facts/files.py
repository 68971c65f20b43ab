"""Files, folders and links of a host."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe
from provisioner.quoting import quote

FILE_LIMIT = 1024 * 1024
"""Bytes; a larger file's content isn't read (the fact is unknown)."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file, folder or link target as it is. `kind` "file", "directory", "dangling" (a link that leads
    nowhere) or "other" (a device, a socket, a pipe); `mode` permission bits;
    `content` None unless kind is "file"; `link` the target text when the path itself is a symbolic link;
    `mtime` seconds since the epoch on the host's clock."""

    kind: str
    mode: int
    owner: str
    group: str
    size: int
    content: str | None = None
    link: str | None = None
    mtime: int = 0


@dataclass(frozen=True)
class FileProbe(Probe[FileState]):
    """State of `path`, links followed; absent when nothing is there (a link that leads nowhere is `dangling`)."""

    path: str
    content: bool = True

    @property
    def key(self) -> str:
        return f"file {self.path}"

    def script(self) -> str:
        body = 'cat "$f"' if self.content else ":"
        return f"""\
f={quote(self.path)}
if [ ! -e "$f" ] && [ ! -L "$f" ]; then
    d=$f
    while [ ! -e "${{d:-/}}" ]; do d=${{d%/*}}; done
    [ -x "${{d:-/}}" ] || unknown "${{d:-/}} can't be searched"
    absent
fi
l=; [ -L "$f" ] && l=$(readlink "$f")
[ -e "$f" ] || {{ printf 'dangling 777 root root 0 0 %s\\n' "$l"; exit 0; }}
if [ -f "$f" ]; then k=file; elif [ -d "$f" ]; then k=directory; else k=other; fi
s=$(stat -L -c '%a %U %G %s %Y' "$f") || unknown "$f can't be read"
printf '%s %s %s\\n' "$k" "$s" "$l"
[ "$k" = file ] || exit 0
set -- $s
[ "$4" -le {FILE_LIMIT} ] || unknown "$f is larger than {FILE_LIMIT // 1024} KiB"
{body}
"""

    def parse(self, output: Output) -> FileState:
        head, _, rest = output.text.partition("\n")
        kind, mode, owner, group, size, mtime, *link = head.split(" ", 6)
        return FileState(
            kind=kind,
            mode=int(mode, 8),
            owner=owner,
            group=group,
            size=int(size),
            content=rest if kind == "file" and self.content else None,
            link=(link[0] or None) if link else None,
            mtime=int(mtime),
        )
