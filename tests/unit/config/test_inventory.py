"""An inventory becomes hosts whose every value has an origin."""

import time
from pathlib import Path

import pytest

from provisioner.config.inventory import load_inventory, with_playbook_vars
from provisioner.config.variables import namespace
from provisioner.model.inventory import Host, Inventory, Level, Secret, Value

TEXT = """\
playbook = "site.toml"
[connection]
user = "ops"
key = "keys/id"
jump = "bastion"
[versions]
driver = "580.95.05"
[vars]
ntp.servers = ["a", "b"]
rack = "none"
[hosts.bastion]
jump = ""
[hosts."gpu[01-04]"]
address = "10.0.0.{number}"
node = "{name}.k8s"
port = 2222
[hosts.gpu05]
vars = { rack = "r5" }
[groups.odd]
hosts = ["gpu[01,03]", "gpu05"]
connection.user = "odd"
[groups.odd.vars]
rack = "odd"
[groups.late]
hosts = ["gpu03"]
vars.rack = "late"
[cluster]
kubeconfig = "~/.kube/config"
kubectl_on = "gpu05"
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    (tmp_path / "prod.toml").write_text(TEXT)
    return load_inventory(tmp_path / "prod.toml", sets=["gpu.cards=2"])


def origin(host: Host, name: str) -> tuple[object, Level, str]:
    value = host.vars[name]
    return value.value, value.level, value.where


def test_hosts_of_a_range_differ_in_address_and_node(inventory: Inventory, tmp_path: Path) -> None:
    assert [host.name for host in inventory.hosts] == ["bastion", "gpu01", "gpu02", "gpu03", "gpu04", "gpu05"]
    second = inventory.host("gpu02")
    assert (second.connection.address, second.connection.port, second.node) == ("10.0.0.2", 2222, "gpu02.k8s")
    assert second.connection.key == tmp_path / "keys/id"
    assert second.connection.host_keys == "strict"
    assert inventory.host("gpu05").connection.address == "gpu05"
    assert inventory.host("bastion").connection.jump is None
    assert inventory.lock_path == tmp_path / "prod.lock"
    assert inventory.groups == {"odd": ("gpu01", "gpu03", "gpu05"), "late": ("gpu03",)}


def test_the_stronger_level_replaces_and_says_where(inventory: Inventory) -> None:
    assert origin(inventory.host("gpu02"), "rack") == ("none", Level.GROUP, "prod.toml:10 [vars]")
    assert origin(inventory.host("gpu01"), "rack") == ("odd", Level.GROUP, "prod.toml:23 [groups.odd.vars]")
    assert origin(inventory.host("gpu03"), "rack") == ("late", Level.GROUP, "prod.toml:26 [groups.late.vars]")
    assert origin(inventory.host("gpu05"), "rack") == ("r5", Level.HOST, "prod.toml:18 [hosts.gpu05.vars]")
    assert origin(inventory.host("gpu05"), "gpu.cards") == (2, Level.SET, "--set gpu.cards")
    assert origin(inventory.host("gpu05"), "containerd.mode") == ("default", Level.PLAYBOOK, "built-in default")
    assert origin(inventory.host("gpu05"), "connection.user")[0] == "odd"
    assert inventory.host("gpu05").connection.user == "odd"
    assert origin(inventory.host("gpu02"), "connection.address") == (
        "10.0.0.2",
        Level.HOST,
        'prod.toml:14 [hosts."gpu[01-04]"]',
    )
    assert origin(inventory.host("gpu05"), "connection.port") == (22, Level.PLAYBOOK, "built-in default")


def test_a_playbooks_variables_are_weaker_than_the_inventorys_and_stronger_than_defaults(inventory: Inventory) -> None:
    book = {
        name: Value(value, Level.PLAYBOOK, "site.toml:3 [vars]")
        for name, value in {"rack": "book", "containerd.mode": "runtimeclass", "own": 1}.items()
    }
    host = with_playbook_vars(inventory, book).host("gpu02")
    assert (host.var("rack"), host.var("containerd.mode"), host.var("own")) == ("none", "runtimeclass", 1)
    assert load_inventory(inventory.path, playbook_vars=book, sets=["gpu.cards=2"]).host("gpu02").vars == host.vars


def test_templates_see_variables_nested_and_the_host(inventory: Inventory) -> None:
    seen = namespace(inventory.host("gpu01"))
    assert seen["ntp"] == {"servers": ["a", "b"]}
    assert seen["versions"] == {"driver": "580.95.05"}
    assert seen["host"] == {"name": "gpu01", "address": "10.0.0.1", "node": "gpu01.k8s", "groups": ["odd"]}
    assert "connection" not in seen


def test_the_clusters_kubeconfig_is_where_kubectl_runs(inventory: Inventory, tmp_path: Path) -> None:
    assert inventory.cluster is not None
    assert (inventory.cluster.kubectl_on, inventory.cluster.kubeconfig) == ("gpu05", Path("~/.kube/config"))
    (tmp_path / "here.toml").write_text('[cluster]\nkubeconfig = "kube"\n[hosts.a]\n')
    here = load_inventory(tmp_path / "here.toml").cluster
    assert here is not None
    assert here.kubeconfig == tmp_path / "kube"


def test_the_digest_moves_with_text_sets_and_keys_but_not_with_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, key = tmp_path / "a.toml", tmp_path / "key.asc"
    key.write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    path.write_text(
        '[repositories.r]\nuri = "https://x.example"\nsuite = "s"\nkey_file = "key.asc"\n'
        '[vars]\np = { secret = "p", from = "env:P" }\n[hosts.a]\n'
    )
    monkeypatch.setenv("P", "one-secret")
    first = load_inventory(path).digest
    monkeypatch.setenv("P", "two-secret")
    assert load_inventory(path).digest == first
    assert load_inventory(path, sets=["x=1"]).digest != first
    key.write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n")
    assert load_inventory(path).digest != first


def test_a_groups_repository_replaces_the_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        '[repositories.r]\nuri = "https://x.example"\nsuite = "s"\nproxy = "http://p"\n'
        'password = { secret = "p", from = "prompt" }\n[hosts.a]\n[hosts.b]\n[groups.g]\nhosts = ["b"]\n'
        '[groups.g.repositories.r]\nuri = "https://y.example"\nsuite = "t"\ncomponents = ["main"]\n'
    )
    inventory = load_inventory(path, resolve=False)
    one, other = (inventory.host(name).var("repositories.r") for name in "ab")
    assert (one.uri, one.proxy, one.password) == ("https://x.example", "http://p", Secret("p", ""))
    assert (other.uri, other.suite, other.components, other.proxy) == ("https://y.example", "t", ("main",), None)


def test_five_hundred_hosts_load_in_well_under_a_second(tmp_path: Path) -> None:
    path = tmp_path / "big.toml"
    path.write_text(
        '[connection]\nsudo_password = { secret = "s", from = "prompt" }\n[hosts."gpu[001-500]"]\n'
        '[groups.g]\nhosts = ["gpu[001-250]"]\ngpu.cards = 8\n'
    )
    start = time.process_time()
    inventory = load_inventory(path, ask=lambda _: "a-password")
    assert time.process_time() - start < 0.5
    assert sum(host.var("gpu.cards") == 8 for host in inventory.hosts) == 250


def test_the_annotated_example_loads() -> None:
    example = Path(__file__).parents[3] / "inventories" / "prod.toml"
    inventory = load_inventory(example, resolve=False)
    assert len(inventory.hosts) == 17
    assert inventory.host("gpu17").var("gpu.cards") == 4
