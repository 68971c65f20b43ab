"""What is wrong in an inventory is said with line, column and what was probably meant."""

from pathlib import Path

import pytest

from provisioner.config.inventory import load_inventory
from provisioner.errors import InventoryError

REPOSITORY = '[hosts.a]\n[repositories.r]\nuri = "https://x.example"\nsuite = "s"\n'

CASES = {
    "unknown table": ("[hosts.a]\n[version]\n", "2:2: unknown key 'version' in the inventory", "'versions'"),
    "unknown key": ('[hosts.a]\n[versions]\n  drivr = "1.2"\n', "3:3: unknown key 'drivr' in [versions]", "'driver'"),
    "unknown connection key": ('[hosts.a]\n[connection]\nusr = "x"\n', "3:1: unknown key 'usr'", "'user'"),
    "unknown host key": ("[hosts]\na = { prt = 2 }\n", "2:7: unknown key 'prt' in [hosts.a]", "'port'"),
    "unknown group key": ("[hosts.a]\n[groups.g]\nhost = []\n", "3:1: unknown key 'host' in [groups.g]", "'hosts'"),
    "address in a group": ('[hosts.a]\n[connection]\naddress = "x"\n', "3:1: unknown key 'address'", "known here"),
    "wrong type": ('[hosts.a]\nport = "22"\n', "2:1: hosts.a.port must be an integer", "the string '22'"),
    "boolean is no integer": ("[hosts.a]\n[gpu]\ncards = true\n", "3:1: gpu.cards must be an integer", "boolean true"),
    "table expected": ('[hosts]\na = "10.0.0.1"\n', "2:1: hosts.a must be a table", "[hosts.a]"),
    "choice": ('[hosts.a]\n[containerd]\nmode = "both"\n', "3:1: containerd.mode must be", '"default" or'),
    "version": ('[hosts.a]\n[versions]\ndriver = "latest"\n', "3:1: versions.driver must be a version", "580.95.05"),
    "version as a number": (
        "[hosts.a]\n[versions]\ndriver = 580.95\n",
        "3:1: versions.driver must be",
        "number 580.95",
    ),
    "host declared twice": ("[hosts.a]\n[hosts.b]\n[hosts.a]\n", "3:1: the host 'a' is declared twice", "on line 1"),
    "host key twice": ("[hosts]\na = {}\na = {}\n", "3:1: the host 'a' is declared twice", "first on line 2"),
    "host in two ranges": (
        '[hosts."g[1-3]"]\n[hosts.g2]\n',
        "2:8: the host 'g2' is declared twice",
        'on line 1, as hosts."g[1-3]"',
    ),
    "key twice": ('[hosts.a]\n[vars]\nx = 1\ny = "a"\nx = 2\n', "5:1: the key 'vars.x' is declared twice", "line 3"),
    "empty range": ('[hosts."g[3-1]"]\n', "1:8: 'g[3-1]' doesn't name hosts", "3 is above 1"),
    "empty brackets": ('[hosts."g[]"]\n', "1:8: 'g[]' doesn't name hosts", "is empty"),
    "same address": ('[hosts."g[1-2]"]\naddress = "x"\n', "2:1: 2 hosts have the same address 'x'", "{number}"),
    "nothing to fill in": ('[hosts.a]\naddress = "x{number}"\n', "2:1: the address 'x{number}' has", "in a range"),
    "unknown blank": ('[hosts."g[1-2]"]\nnode = "{nmae}"\n', "2:1: the node '{nmae}' has", "{name}"),
    "same node": ('[hosts."g[1-2]"]\nnode = "x"\n', "2:1: 2 hosts have the same node 'x'", "{name}"),
    "no hosts": ("[gpu]\ncards = 1\n", "the inventory has no hosts", "add [hosts.NAME]"),
    "dangerous name": ('[hosts."a$(id)"]\n', "1:8: a host can't be named 'a$(id)'", "letters"),
    "name of all": ("[hosts.all]\n", "1:8: a host can't be named 'all'", "every host"),
    "unknown member": (
        '[hosts.gpu01]\n[groups.g]\nhosts = [\n  "gpu01",\n  "gpu1",\n]\n',
        "5:3: the group 'g' names 'gpu1', which is no host",
        "'gpu01'",
    ),
    "group in a group": (
        '[hosts.a]\n[groups.g]\nhosts = ["a"]\n[groups.h]\nhosts = ["g"]\n',
        "5:10: the group 'h' names 'g'",
        "hosts, not groups",
    ),
    "group like a host": ("[hosts.a]\n[groups.a]\n", "2:9: a group can't be named 'a'", "a host has that name"),
    "group all": ("[hosts.a]\n[groups.all]\n", "2:9: the group 'all' is built in", "every host"),
    "jump in a circle": (
        '[hosts.a]\njump = "b"\n[hosts.b]\njump = "c"\n[hosts.c]\njump = "a"\n',
        "2:1: the jump hosts of a go in a circle",
        "a → b → c → a",
    ),
    "jump to itself by a group": (
        '[connection]\njump = "b"\n[hosts.a]\n[hosts.b]\n',
        "4:8: the jump hosts of b go in a circle",
        'jump = "" in [hosts.b]',
    ),
    "no jump host": ('[hosts.a]\njump = "a b"\n', "2:1: 'a b' is no jump host", "USER@ADDRESS:PORT"),
    "set twice": ("[hosts.a]\nport = 1\nconnection.port = 2\n", "3:12: port is set twice for a", "keep one"),
    "kubectl_on": ('[hosts.gpu01]\n[cluster]\nkubectl_on = "gpu1"\n', "3:1: kubectl_on names 'gpu1'", "'gpu01'"),
    "reserved variable": (
        '[hosts.a]\n[vars.versions]\ndriver = "1"\n',
        "3:1: versions.driver can't be set",
        "[versions]",
    ),
    "name of a fact": ('[hosts.a]\n[vars]\narch = "x"\n', "3:1: arch can't be set in vars", "another name"),
    "odd variable": ("[hosts.a]\n[vars]\nmy-name = 1\n", "3:1: a variable can't be named 'my-name'", "letters, digits"),
    "no suite": ('[hosts.a]\n[repositories.r]\nuri = "x"\n', "2:15: the repository 'r' has no suite", "add suite"),
    "key twice over": (REPOSITORY + 'key = "k"\nkey_file = "f"\n', "6:1: the repository 'r' has both", "keep one"),
    "no key file": (REPOSITORY + 'key_file = "f.asc"\n', "5:1: the key", "No such file"),
    "fingerprint": (REPOSITORY + 'key_fingerprint = "B1"\n', "5:1: repositories.r.key_fingerprint must be", "40"),
    "line end in a URI": (REPOSITORY.replace("x.ex", "x\\nTrusted: yes"), "3:1: repositories.r.uri must be", "spaces"),
    "not TOML": ('[hosts.a]\naddress = "x\n', "2:13: this isn't TOML", "Illegal character"),
    "not closed": ("[hosts.a]\nx = [1,\n", "this isn't TOML", ":3:"),
}


@pytest.mark.parametrize(("text", "what", "hint"), CASES.values(), ids=CASES.keys())
def test_the_error_names_place_and_remedy(text: str, what: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "prod.toml"
    path.write_text(text)
    with pytest.raises(InventoryError) as caught:
        load_inventory(path)
    said = str(caught.value)
    assert what in said
    assert hint in said
    assert said.startswith(f"{path}:")


def test_a_file_that_is_not_utf8_says_where(tmp_path: Path) -> None:
    path = tmp_path / "prod.toml"
    path.write_bytes(b"[hosts.a]\nnode = 'gr\xfc\xdfe'\n")
    with pytest.raises(InventoryError, match=r"prod.toml:2:11: the file isn't UTF-8"):
        load_inventory(path)


def test_a_missing_file_names_the_likely_one(tmp_path: Path) -> None:
    (tmp_path / "prod.toml").write_text("[hosts.a]\n")
    with pytest.raises(InventoryError, match=r"no such file\n  did you mean 'prod.toml'"):
        load_inventory(tmp_path / "prd.toml")


def test_windows_line_ends_keep_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "prod.toml"
    path.write_bytes(b"[hosts.a]\r\n[gpu]\r\ncards = -1\r\n")
    with pytest.raises(InventoryError, match=r"prod.toml:3:1: gpu.cards must be an integer of 0 or more, not the"):
        load_inventory(path)


def test_one_name_as_value_and_as_table(tmp_path: Path) -> None:
    from provisioner.config.variables import namespace

    path = tmp_path / "prod.toml"
    path.write_text("[vars]\nrack = 1\n[hosts.a]\nvars.rack.row = 2\n")
    with pytest.raises(InventoryError, match=r"(?s)rack.row and rack can't both.*prod.toml:4.*prod.toml:2"):
        namespace(load_inventory(path).hosts[0])
