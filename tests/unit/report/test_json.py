"""The JSON document, and a saved plan."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from provisioner.errors import ConfigError, InventoryError
from provisioner.model import planjson
from provisioner.model.action import Reboot, Run, WriteFile
from provisioner.model.plan import Plan
from provisioner.report import json_doc

from . import samples


def test_a_run_holds_the_names_that_are_an_interface() -> None:
    doc = json_doc.document("apply", 0, **json_doc.run(samples.result(samples.changed(1))))
    assert (doc["schema"], doc["command"], doc["exit_code"]) == (1, "apply", 0)
    host = doc["hosts"]["gpu01"]
    assert {key: host[key] for key in ("status", "changed", "failed", "deferred", "execs", "connections")} == {
        "status": "changed",
        "changed": 1,
        "failed": 0,
        "deferred": 1,
        "execs": 3,
        "connections": 1,
    }
    assert host["changes"][0]["id"] == samples.RUNTIME.id
    assert host["waiting"][0]["deferred"]["reason"] == "needs a drained node"


def test_a_plan_tells_each_hosts_state() -> None:
    hosts = json_doc.plan(samples.site(), "full")["hosts"]
    assert {name: hosts[name]["status"] for name in ("gpu01", "gpu17", "gpu18", "gpu19", "gpu21")} == {
        "gpu01": "pending",
        "gpu17": "refused",
        "gpu18": "unreachable",
        "gpu19": "unknown",
        "gpu21": "ok",
    }
    assert '+default_runtime_name = "nvidia"' in hosts["gpu01"]["changes"][0]["diff"]


def test_the_text_is_ascii_whatever_a_host_says() -> None:
    output = "\x1b[31m\udcff \u202e"
    doc = json_doc.run(samples.result(samples.broken(1, output)))
    text = json_doc.dumps(doc)
    text.encode("ascii")
    assert json.loads(text)["hosts"]["gpu01"]["changes"][1]["output"] == output


def test_an_error_says_what_why_and_where() -> None:
    wrong = InventoryError("unknown key 'hots'", why="did you mean 'hosts'?", file="prod.toml", line=3, column=1)
    doc = json_doc.error("plan", wrong)
    assert doc["exit_code"] == 1
    assert doc["error"] == {
        "kind": "InventoryError",
        "what": "prod.toml:3:1: unknown key 'hots'",
        "why": "did you mean 'hosts'?",
        "remedy": "",
        "file": "prod.toml",
        "line": 3,
        "column": 1,
    }


def whole() -> Plan:
    """A plan that holds every kind of field."""
    odd = replace(
        samples.MODULES,
        actions=(WriteFile("/x", "bytes \udcff\n", owner="root"), Run("true", "to see", 5.0), Reboot("kernel")),
        provisional=True,
        requires=("packages",),
        notes=("a note",),
    )
    first, *rest = samples.site().hosts
    return replace(
        samples.site(),
        hosts=(replace(first, changes=(*first.changes, odd), identity="machine/boot"), *rest),
        secrets={"salt": "00", "proxy": "ab12"},
        options={"stage": None},
        created="2026-11-30T16:42:05+00:00",
    )


def test_a_saved_plan_comes_back_exactly() -> None:
    text = planjson.dumps(whole())
    text.encode("ascii")
    assert planjson.loads(text, "x.plan") == whole()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("[]", "isn't a saved plan"),
        ("{}", "isn't a saved plan"),
        ('{"provision_plan": 99}', "another version"),
        ('{"provision_plan": 1, "playbook": 3}', "isn't str"),
        ('{"provision_plan": 1, "colour": 3}', "no field colour"),
        ('{"provision_plan": 1}', "missing"),
    ],
)
def test_anything_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planjson.loads(text, "x.plan")
    assert why in caught.value.why
    assert str(caught.value).startswith("x.plan: ")


def test_an_action_that_doesnt_exist_is_refused() -> None:
    with pytest.raises(ConfigError):
        planjson.loads(planjson.dumps(whole()).replace('"WriteFile"', '"Format"'), "x.plan")
