"""The text of a new inventory for given hosts, with what was found on them, for a person to go on with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from provisioner.config.known import KINDS
from provisioner.config.schema import WORD
from provisioner.config.tomltext import toml_comment, toml_key, toml_string
from provisioner.model.inventory import Connection


@dataclass(frozen=True, slots=True)
class FoundHost:
    """A host as it was named and reached, and what it had. "" and None: not found. `error`: it couldn't be read."""

    name: str
    address: str = ""
    user: str | None = None
    port: int = 22
    distribution: str = ""
    driver: str = ""
    flavour: str = ""
    toolkit: str = ""
    containerd: str = ""
    cards: int | None = None
    error: str = ""


_EXAMPLES = {"driver": '"580.95.05"', "flavour": '"open"', "toolkit": '"1.18.0"'}

_SETTINGS = {
    "user": ("ops", "the user to log in as"),
    "key": ("~/.ssh/id_ed25519", "else the keys that ssh finds"),
    "known_hosts": ("known_hosts", "else ~/.ssh/known_hosts"),
    "jump": ("ops@bastion:22", "how to get there"),
    "host_keys": ("strict", 'unknown host keys are refused; "accept-new" takes them at the first contact'),
}

_TAIL = """
# A group gives several hosts what the others don't have; of two groups the later one counts.
# [groups.h100]
# hosts = ["gpu[01-04]"]
# [groups.h100.gpu]
# cards = 8
#
# The cluster, for cordon, drain and uncordon in a rolling upgrade:
# [cluster]
# kubeconfig = "~/.kube/config"
#
# Where packages come from:
# [repositories.cuda]
# uri = "https://developer.download.nvidia.com/compute/cuda/repos/{distribution}/{machine}"
# suite = "/"
# key_file = "keys/cuda.asc"
# key_fingerprint = "…"
"""


def annotate(hosts: Sequence[FoundHost], used: Connection | None = None) -> str:
    """An inventory that `load_inventory` accepts. What most hosts have is written as what all shall have; a host
    that has something else is marked, and its first plan will show the difference. `used`: the settings by which
    the hosts were reached, to be reached by again."""
    users = Counter(host.user for host in hosts if WORD.fits(host.user))
    user = users.most_common(1)[0][0] if users else None
    names = _names(hosts)
    lines = [
        "# Written by `provision init`. Look through it: versions, repositories; then: provision lock THIS-FILE",
        'playbook = "gpu-node"',
        "",
        "[connection]",
        *_connection(user, used),
        "",
        "[versions]                       # every host gets exactly these",
        *_versions(hosts),
        "",
        *_shared_cards(hosts),
        "# [containerd]",
        '# mode = "default"              # or "runtimeclass": only pods that name the RuntimeClass get the cards',
        "",
    ]
    for host, name in zip(hosts, names, strict=True):
        lines += _host(host, name, user, _common(each.cards for each in hosts), hosts)
    return "\n".join(lines) + _TAIL


def _connection(user: str | None, used: Connection | None) -> list[str]:
    """The [connection] table's lines: what was used, and what else there is as comments."""
    told = {
        "user": user,
        "key": used and used.key and str(used.key.absolute()),
        "known_hosts": used and used.known_hosts and str(used.known_hosts.absolute()),
        "jump": used and used.jump,
        "host_keys": used and used.host_keys,
    }
    lines = []
    for key, (example, meaning) in _SETTINGS.items():
        value = told.get(key)
        start = f"{key} = {toml_string(value)}" if value else f'# {key} = "{example}"'
        lines.append(f"{start:<32} # {meaning}")
    asks = bool(used and used.sudo_password)
    password = 'sudo_password = { secret = "sudo", from = "prompt" }   # or "env:VAR", "file:PATH" with mode 0600'
    return [*lines, password if asks else f"# {password}"]


def _names(hosts: Sequence[FoundHost]) -> list[str]:
    """A name for each host that an inventory may hold; equal ones are numbered."""
    names: list[str] = []
    for host in hosts:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", host.name).strip("._-") or "host"
        name = f"{name}-host" if name == "all" else name
        number = 2
        unique = name
        while unique in names:
            unique, number = f"{name}-{number}", number + 1
        names.append(unique)
    return names


def _common(values: Iterable[str | int | None]) -> str | int | None:
    """What most have; of equally many the greater, so that the answer doesn't hang on the order."""
    counted = Counter(value for value in values if value not in (None, ""))
    return max(counted, key=lambda value: (counted[value], str(value))) if counted else None


def _versions(hosts: Sequence[FoundHost]) -> list[str]:
    lines: list[str] = []
    for key, example in _EXAMPLES.items():
        common = _common(getattr(host, key) for host in hosts)
        having = sum(getattr(host, key) == common for host in hosts)
        if common is not None and KINDS[f"versions.{key}"].fits(common):
            wanted, said = f"{key} = {toml_string(str(common))}", f"found on {having} of {len(hosts)} hosts"
        else:
            wanted, said = (
                f"# {key} = {example}",
                f"found: {toml_comment(str(common))}" if common else "found on no host",
            )
        lines.append(f"{wanted:<32} # {said}")
    return lines


def _shared_cards(hosts: Sequence[FoundHost]) -> list[str]:
    common = _common(host.cards for host in hosts)
    if common is None:
        return ["# [gpu]", "# cards = 8                     # the number expected; another is an error", ""]
    return ["[gpu]", f"cards = {common}                       # the number expected; another is an error", ""]


def _host(
    host: FoundHost, name: str, user: str | None, cards: str | int | None, hosts: Sequence[FoundHost]
) -> list[str]:
    found = [
        ("", host.distribution),
        ("driver ", " ".join(part for part in (host.driver, host.flavour) if part)),
        ("toolkit ", host.toolkit),
        ("containerd ", host.containerd),
        ("cards ", "" if host.cards is None else str(host.cards)),
    ]
    said = ", ".join(f"{what}{value}" for what, value in found if value) or "nothing found"
    lines = [f"[hosts.{toml_key(name)}]", f"# {toml_comment(f'not read: {host.error}' if host.error else said)}"]
    for key in _EXAMPLES:
        common = _common(getattr(each, key) for each in hosts)
        if getattr(host, key) and getattr(host, key) != common:
            lines.append(f"# differs: {key} {toml_comment(getattr(host, key))}, most have {toml_comment(str(common))}")
    address = host.address or host.name
    if address != name and WORD.fits(address) and not set("{}") & set(address):  # these would be filled in
        lines.append(f"address = {toml_string(address)}")
    if host.user != user and WORD.fits(host.user):
        lines.append(f"user = {toml_string(str(host.user))}")
    if host.port != 22:
        lines.append(f"port = {host.port}")
    lines.append(f"# node = {toml_string(name)}   # its name in Kubernetes, when that is another")
    if host.cards is not None and host.cards != cards:
        lines += [f"[hosts.{toml_key(name)}.gpu]", f"cards = {host.cards}"]
    return [*lines, ""]
