"""The smaller commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Said, Site
from tests.unit.report import samples

Provision = Callable[..., Said]

FACTS = {
    "gpu01": {"driver": {"version": "580.95.05"}},
    "gpu02": {"driver": {"version": "580.95.05"}},
    "gpu03": {"driver": {"version": "570.172.08"}},
}


INVENTORY = """\
[hosts."gpu[01-02]"]
address = "10.0.0.{number}"
port = 2222
user = "ada"
jump = "ops@bastion"

[groups.h100]
hosts = ["gpu[01-02]"]

[groups.h100.gpu]
cards = 8
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inventory in the working folder."""
    (tmp_path / "prod.toml").write_text(INVENTORY)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("written")
def test_inventory_list(provision: Provision) -> None:
    said = provision("inventory", "list", "prod.toml")
    assert said.out.splitlines() == [
        "HOST   ADDRESS                            NODE   GROUPS",
        "gpu01  ada@10.0.0.1:2222 via ops@bastion  gpu01  h100",
        "gpu02  ada@10.0.0.2:2222 via ops@bastion  gpu02  h100",
        "2 hosts",
    ]
    doc = json.loads(provision("inventory", "list", "prod.toml", "--json", "--limit", "gpu02").out)
    assert list(doc["hosts"]) == ["gpu02"]


@pytest.mark.usefixtures("written")
def test_inventory_show_names_the_origin_of_each_value(provision: Provision) -> None:
    said = provision("inventory", "show", "prod.toml", "gpu01", "--set", "containerd.mode=runtimeclass")
    origins = {line.split()[0]: line.split()[1:] for line in said.out.splitlines()}
    assert origins["gpu.cards"] == ["8", "group", "prod.toml:11", "[groups.h100.gpu]"]
    assert origins["containerd.mode"][:2] == ["runtimeclass", "--set"]
    assert "gpu02" not in said.out


def test_tasks(site: Site, provision: Provision) -> None:
    assert "file  A file with a given content." in provision("tasks", "list").out
    assert "path   str   required" in provision("tasks", "show", "file").out
    wrong = provision("tasks", "show", "fiel")
    assert wrong.code == 64
    assert "did you mean 'file'?" in wrong.err
    assert json.loads(provision("tasks", "show", "file", "--json").out)["fields"][0]["name"] == "path"


@pytest.mark.parametrize(
    ("options", "changed", "code", "written"),
    [((), True, 0, True), (("--check",), True, 2, False), (("--check",), False, 0, False), ((), False, 0, False)],
)
def test_lock(
    site: Site, provision: Provision, options: tuple[str, ...], changed: bool, code: int, written: bool
) -> None:
    site.lock_changed = changed
    said = provision("lock", "prod.toml", *options)
    assert said.code == code
    assert ("write_lock" in site.called()) is written
    assert ("nvidia-open 570 → 580" in said.out) is changed


def test_facts_of_a_host_that_cant_be_read_fail(site: Site, provision: Provision, tmp_path: Path) -> None:
    site.facts = {**FACTS, "gpu04": {"error": "can't be reached"}}
    said = provision("facts", "--json", "--save", str(tmp_path))
    assert said.code == 1
    assert json.loads(said.out)["hosts"]["gpu01"]["driver"]["version"] == "580.95.05"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu01.json", "gpu02.json", "gpu03.json"]


def test_facts_take_hosts_as_arguments(site: Site, provision: Provision) -> None:
    site.facts = FACTS
    provision("facts", "prod.toml", "gpu01", "gpu02")
    assert site.calls[0][1]["limit"] == "gpu01,gpu02"
    provision("facts", "gpu03")
    assert site.calls[2][1]["limit"] == "gpu03"
    assert provision("facts", "gpu03", "--limit", "gpu01").code == 64


def test_drift_between_hosts(site: Site, provision: Provision) -> None:
    site.facts, site.plan = FACTS, samples.plan(samples.host(1))
    said = provision("drift")
    assert said.code == 2
    assert "  570.172.08  1 host: gpu03" in said.out


def test_drift_from_what_is_desired(site: Site, provision: Provision) -> None:
    site.facts, site.plan = {"gpu01": FACTS["gpu01"]}, samples.plan(samples.host(1, samples.RUNTIME))
    said = provision("drift")
    assert said.code == 2
    assert "/etc/containerd/config.toml" in said.out


def test_drift_since(site: Site, provision: Provision, tmp_path: Path) -> None:
    site.facts, site.plan = {"gpu01": FACTS["gpu03"]}, samples.plan(samples.host(1))
    provision("facts", "--save", str(tmp_path))
    assert provision("drift", "--since", str(tmp_path)).code == 0
    site.facts = {"gpu01": FACTS["gpu01"]}
    said = provision("drift", "--since", str(tmp_path), "--json")
    assert said.code == 2
    assert json.loads(said.out)["since"] == {"gpu01": {"driver.version": {"then": "570.172.08", "now": "580.95.05"}}}
    assert provision("drift", "--since", str(tmp_path / "none")).code == 64


def test_no_drift(site: Site, provision: Provision) -> None:
    site.facts, site.plan = {"gpu01": FACTS["gpu01"]}, samples.plan(samples.host(1))
    said = provision("drift")
    assert (said.code, said.out) == (0, "Nothing differs on 1 host.\n")


def test_exec_asks(site: Site, provision: Provision) -> None:
    said = provision("exec", "prod.toml", "--", "nvidia-smi", "-L", "a b; rm")
    assert said.code == 1
    assert "provision exec prod.toml --yes -- nvidia-smi -L 'a b; rm'" in said.err
    assert "exec" not in site.called()


@pytest.mark.parametrize(
    ("typed", "ran"),
    [
        (["dmesg | grep Xid"], "dmesg | grep Xid"),
        (["echo", "a b", "$(reboot)"], "echo 'a b' '$(reboot)'"),
    ],
)
def test_words_of_a_command_stay_words(site: Site, provision: Provision, typed: list[str], ran: str) -> None:
    said = provision("exec", "prod.toml", "--yes", "--json", "--", *typed)
    assert site.calls[1] == ("exec", ran)
    assert json.loads(said.out)["ran"] == ran


def test_exec_again_repeats_the_command(site: Site, provision: Provision) -> None:
    site.result = samples.result(samples.broken(1, ""), exit_code=1)
    said = provision("exec", "prod.toml", "--yes", "--", "echo", "a b")
    assert said.out.endswith("alone: provision exec prod.toml --limit failed@last -- echo 'a b'\n")


def test_exec_without_a_command(site: Site, provision: Provision) -> None:
    assert provision("exec", "prod.toml").code == 64
