"""Package sources of a host: entries of every file, which lists are fetched, and files that hold credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from provisioner.model.fact import Output, Probe
from provisioner.quoting import quote


@dataclass(frozen=True, slots=True)
class Source:
    """One repository entry: a line of a `.list` file or a stanza of a `.sources` file, for one URI and suite.

    `line` counts from 1; `uri` without credentials and with exactly one slash at its end; `signed_by` as written
    ("" where the entry names no key; an embedded key is "(embedded)").
    """

    path: str
    line: int
    uri: str
    suite: str
    components: tuple[str, ...] = ()
    signed_by: str = ""
    enabled: bool = True

    @property
    def place(self) -> str:
        """For people: FILE:LINE."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Sources:
    """All entries, and the names of the release files that apt has fetched (apt's own file names)."""

    entries: tuple[Source, ...] = ()
    releases: frozenset[str] = frozenset()

    def fetched(self, uri: str, suite: str) -> bool:
        """Whether apt has read the lists of this repository at least once."""
        stem = list_name(uri, suite)
        return f"{stem}InRelease" in self.releases or f"{stem}Release" in self.releases


def plain_uri(uri: str) -> str:
    """The URI as repositories are compared: without user and password, with one slash at its end."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    text = f"{parts.scheme}://{host}{parts.path}" if parts.scheme and host else uri
    return text.rstrip("/") + "/"


def list_name(uri: str, suite: str) -> str:
    """What the names of a repository's files in /var/lib/apt/lists begin with (apt's URItoFileName).

    A suite that ends in a slash is a folder below the URI (a flat repository), else one below dists/.
    """
    where = plain_uri(uri)
    if not suite.endswith("/"):
        where += f"dists/{suite}/"
    elif suite != "/":
        where += suite
    where = re.sub(r"^[a-z0-9+.-]+:(?://)?", "", where)
    quoted = "".join(f"%{ord(c):02x}" if c in '\\|{}[]<>"^~_=!@#$%&*' or not " " < c < "\x7f" else c for c in where)
    return quoted.replace("/", "_")


@dataclass(frozen=True)
class SourcesProbe(Probe[Sources]):
    """sources.list, sources.list.d and the fetched release files; absent on a host without apt."""

    @property
    def key(self) -> str:
        return "apt sources"

    def script(self) -> str:
        return r"""
[ -d /etc/apt ] || absent
for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [ -e "$f" ] || continue
    [ -r "$f" ] || unknown "$f can't be read"
    printf '==> %s\n' "$f"
    # a password in a URI stays on the host
    sed 's,://[^/@ ]*@,://,g' "$f"; echo
done
echo '==> lists'
ls /var/lib/apt/lists 2>/dev/null | grep 'Release$'
exit 0
"""

    def parse(self, output: Output) -> Sources:
        entries: list[Source] = []
        releases: frozenset[str] = frozenset()
        for part in re.split(r"^==> ", output.text, flags=re.M)[1:]:
            path, _, text = part.partition("\n")
            if path == "lists":
                releases = frozenset(text.split())
            elif path.endswith(".sources"):
                entries += _stanzas(path, text)
            else:
                entries += _lines(path, text)
        return Sources(tuple(entries), releases)


def _lines(path: str, text: str) -> Iterator[Source]:
    """Entries of the one-line format: deb [option=value …] URI SUITE [COMPONENT…]."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*deb\s+(?:\[([^]]*)]\s*)?(\S+)\s+(\S+)([^#]*)", line)
        if match:
            options = dict(option.split("=", 1) for option in (match[1] or "").split() if "=" in option)
            signed = {name.lower(): value for name, value in options.items()}.get("signed-by", "")
            yield Source(path, number, plain_uri(match[2]), match[3], tuple(match[4].split()), signed)


def _stanzas(path: str, text: str) -> Iterator[Source]:
    """Entries of the deb822 format; a stanza with several URIs and suites is several entries."""
    number = 1
    for stanza in re.split(r"(\n[ \t]*(?:\n[ \t]*)+)", text):
        first, fields, name = number, dict[str, str](), ""
        for offset, line in enumerate(stanza.split("\n")):
            if line.startswith("#") or not line.strip():
                continue
            if line[0] in " \t" and name:
                fields[name] += "\n" + line.strip()
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
                first = number + offset if len(fields) == 1 else first
        number += stanza.count("\n")
        if "deb" not in fields.get("types", "").split():
            continue
        signed = fields.get("signed-by", "")
        signed = "(embedded)" if "BEGIN PGP" in signed else signed
        enabled = fields.get("enabled", "yes").lower() not in ("no", "false", "0", "off", "without", "disable")
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                components = tuple(fields.get("components", "").split())
                yield Source(path, first, plain_uri(uri), suite, components, signed, enabled)


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file whose content must not leave the host: permission bits, owner and SHA-256 of the content."""

    mode: int
    owner: str
    digest: str


@dataclass(frozen=True)
class SecretFileProbe(Probe[SecretFile]):
    """State of a file that holds a secret, its content only as a digest."""

    path: str

    @property
    def key(self) -> str:
        return f"digest of {self.path}"

    def script(self) -> str:
        return f"""\
f={quote(self.path)}
[ -e "$f" ] || absent
stat -L -c '%a %U' "$f" && sha256sum <"$f"
"""

    def parse(self, output: Output) -> SecretFile:
        mode, owner, digest, *_ = output.text.split()
        return SecretFile(int(mode, 8), owner, digest)
