"""A new inventory is one that loads, whatever was found."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from provisioner.config.annotate import FoundHost, annotate
from provisioner.config.inventory import load_inventory
from provisioner.model.inventory import Connection, Inventory, Secret


def load(folder: Path, *hosts: FoundHost) -> Inventory:
    path = folder / "new.toml"
    path.write_text(annotate(hosts), encoding="utf-8")
    return load_inventory(path)


def test_what_most_have_is_wanted_of_all_and_the_others_are_marked(tmp_path: Path) -> None:
    same: Any = {
        "user": "ops",
        "distribution": "debian12",
        "flavour": "open",
        "toolkit": "1.18.0",
        "containerd": "1.6.20",
    }
    hosts = (
        FoundHost("gpu1", **same, driver="580.95.05", cards=8),
        FoundHost("gpu2", **same, driver="570.172.08", cards=4),
        FoundHost("gpu3", **same, driver="580.95.05", cards=8, port=2222),
        FoundHost("10.0.0.4", user="root", error="connection refused"),
    )
    inventory = load(tmp_path, *hosts)
    assert [host.var("versions.driver") for host in inventory.hosts] == ["580.95.05"] * 4
    assert [host.var("gpu.cards") for host in inventory.hosts] == [8, 4, 8, 8]
    assert [host.connection.user for host in inventory.hosts] == ["ops", "ops", "ops", "root"]
    assert inventory.host("gpu3").connection.port == 2222
    text = annotate(hosts)
    assert "# differs: driver 570.172.08, most have 580.95.05" in text
    assert "found on 2 of 4 hosts" in text
    assert "# not read: connection refused" in text
    assert "# debian12, driver 580.95.05 open, toolkit 1.18.0, containerd 1.6.20, cards 8" in text


def test_on_new_hosts_the_versions_are_left_to_a_person(tmp_path: Path) -> None:
    inventory = load(tmp_path, FoundHost("gpu1", cards=0))
    assert inventory.host("gpu1").var("versions.driver") is None
    assert '# driver = "580.95.05"           # found on no host' in annotate([FoundHost("gpu1")])


def test_the_way_to_the_hosts_is_kept(tmp_path: Path) -> None:
    used = Connection(
        "", key=Path("/keys/id"), jump="ops@bastion", host_keys="accept-new", sudo_password=Secret("sudo", "hunter22")
    )
    text = annotate([FoundHost("gpu1", user="o'ps")], used)
    (tmp_path / "new.toml").write_text(text)
    reached = load_inventory(tmp_path / "new.toml", resolve=False).hosts[0].connection
    assert (reached.user, reached.key, reached.jump) == ("o'ps", Path("/keys/id"), "ops@bastion")
    assert reached.host_keys == "accept-new"
    assert reached.sudo_password == Secret("sudo", "")
    assert "hunter22" not in text


def test_every_comment_that_proposes_something_is_right(tmp_path: Path) -> None:
    """Take the proposals that stand behind `# ` and see whether the file still loads."""
    text = annotate([FoundHost("gpu1")])
    lines = [line.removeprefix("# ") if line.startswith("# ") and " = " in line else line for line in text.split("\n")]
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "cuda.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    opened = "\n".join(lines).replace("# [", "[").replace("gpu[01-04]", "gpu1").replace('"…"', f'"{"A" * 40}"')
    path = tmp_path / "new.toml"
    path.write_text(opened)
    inventory = load_inventory(path, resolve=False)
    assert inventory.host("gpu1").connection.sudo_password is not None
    assert inventory.host("gpu1").var("gpu.cards") == 8
    assert inventory.cluster is not None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("annotate")


odd = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@example(hosts=[FoundHost("{")])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.lists(st.builds(FoundHost, odd, driver=odd, toolkit=odd, containerd=odd, error=odd), min_size=1, max_size=4))
def test_odd_names_and_findings_stay_data(folder: Path, hosts: list[FoundHost]) -> None:
    assert len(load(folder, *hosts).hosts) == len(hosts)
