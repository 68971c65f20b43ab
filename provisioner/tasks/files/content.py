"""Wanted content of one file against what is there: the one place where such a difference becomes a change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from provisioner.facts.files import FileState
from provisioner.model.action import Run, WriteFile
from provisioner.model.change import Change, Finding, Kind, Refusal
from provisioner.quoting import quote
from provisioner.tasks.files.attributes import Attributes

SECRET_MARK = "⟦secret:"
"""What a reference to a secret begins with; a file that holds one isn't readable for everybody."""
OTHERS = 0o007
"""The permission bits of everybody."""


def content_change(
    path: str, have: FileState | None, want: str, attributes: Attributes, *, summary: str = "", shared: bool = False
) -> Iterator[Finding]:
    """The change that gives `path` this content and these attributes; nothing when it has them.

    What stands where a link leads is written, the link stays. A folder or a device there is a refusal. `shared`: the
    rest of the file is somebody else's, who may count on reading it; a secret in it is then only pointed out.
    """
    obstacle = refuse_other_kind(path, have)
    if obstacle:
        yield obstacle
        return
    if have is None or have.kind == "dangling":
        mode = attributes.mode if attributes.mode is not None else (0o600 if SECRET_MARK in want else None)
        yield Change(
            subject=path,
            summary=summary or "new file",
            kind=Kind.CREATE,
            actions=(WriteFile(path, want, mode=mode, owner=attributes.owner, group=attributes.group),),
            after=want,
            notes=link_notes(path, have),
        )
        return
    notes = link_notes(path, have)
    if SECRET_MARK in want and attributes.mode is None and have.mode & OTHERS:
        if shared:
            notes += (f"{path} gets a secret and everybody may read it ({have.mode:04o}): the task's mode closes it",)
        else:
            attributes = replace(attributes, mode=have.mode & ~OTHERS)
            notes += (f"{path} holds a secret, so others lose their access; the task's mode would say otherwise",)
    differing = attributes.differing(have)
    if have.content == want and not differing:
        return
    changed = have.content != want
    yield Change(
        subject=path,
        summary="; ".join(part for part in (summary if changed else "", *differing) if part) or "content",
        kind=Kind.UPDATE,
        actions=(WriteFile(path, want, mode=attributes.mode, owner=attributes.owner, group=attributes.group),),
        before=have.content if changed else None,
        after=want if changed else None,
        notes=notes,
    )


def attribute_change(path: str, have: FileState, attributes: Attributes) -> Iterator[Change]:
    """The change that sets mode and owner and leaves the content alone."""
    differing = attributes.differing(have)
    if differing:
        yield Change(
            subject=path,
            summary="; ".join(differing),
            kind=Kind.UPDATE,
            actions=(Run(attributes.script(path), why=f"{'; '.join(differing)} of {path}"),),
            notes=link_notes(path, have),
        )


def refuse_other_kind(path: str, have: FileState | None) -> Refusal | None:
    """Why no file can be written there, if so."""
    if have is None or have.kind in ("file", "dangling"):
        return None
    what = "a folder" if have.kind == "directory" else "a device, socket or pipe"
    return Refusal(
        subject=path,
        what=f"{path} is {what}, not a file",
        why="what is there isn't taken away for a file",
        remedy=f"move it away by hand, or let the task name another path than {path}",
    )


def announced(path: str, summary: str) -> Change:
    """An edit of a file that isn't there yet: a package of an earlier stage must bring it, then the real difference
    is planned. Done as it is, it fails and says so, rather than make a file that lacks the rest."""
    message = f"{path} is not there: let a package of an earlier stage bring it, or let the task create it"
    return Change(
        subject=path,
        summary=f"{summary}, when the file is there",
        kind=Kind.UPDATE,
        actions=(
            Run(
                f"[ ! -e {quote(path)} ] || {{ echo 'it came in this very stage: apply again' >&2; exit 1; }}\n"
                f"printf '%s\\n' {quote(message)} >&2; exit 1\n",
                why=f"{summary} of {path}",
            ),
        ),
        provisional=True,
    )


def link_notes(path: str, have: FileState | None) -> tuple[str, ...]:
    """Says that a link is followed."""
    if have is None or have.link is None:
        return ()
    if have.kind == "dangling":
        return (f"{path} is a link to {have.link}, where nothing is: the file is made there and the link stays",)
    return (f"{path} is a link to {have.link}: the file there is changed and the link stays",)
