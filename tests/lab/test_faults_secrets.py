"""Secrets: the right value on the host, and nowhere else."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab import Lab, LabHost
from tests.lab.site import Site, book

SECRET = "Tr0ub4dor'&\"$(id)`x` 3"
TRACE = "Tr0ub4dor"
"""What every leak would show, however the rest is escaped."""
REFERENCE = "⟦secret:token⟧"

BOOK = book(
    'task = "file"\npath = "/root/credentials"\ncontent = "token={{ token }}\\n"',
    """
task = "command"
summary = "log in"
run = '''
printf %s {{ token | quote }} >/root/given
echo the token is {{ token | quote }}
sleep 3
'''
creates = "/root/given"
disruption = "none"
""",
)


@dataclass
class Traces:
    """All that runs with a secret left behind: name → text."""

    host: LabHost
    site: Site
    texts: dict[str, str]


@pytest.fixture(scope="module")
def traces(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Traces:
    lab.reset("gpu-x")
    host = lab.host("gpu-x")
    site = Site(tmp_path_factory.mktemp("site"), {"TOKEN": SECRET})
    site.write(host, text='[vars]\ntoken = { secret = "token", from = "env:TOKEN" }', playbook=BOOK)
    saved, events = site.folder / "saved.plan", site.folder / "events"
    texts: dict[str, str] = {}
    plan = site.run("plan", "--diff", "full", "-vv", "--out", str(saved))
    texts["plan"] = plan.stdout + plan.stderr
    texts["plan --json"] = site.run("plan", "--json", "--diff", "full").stdout
    run = site.start("apply", "--plan", str(saved), "--yes", "--json", "-vv", "--diff", "full", "--events", str(events))
    samples = []
    while run.poll() is None:
        samples += [host.exec("ps -eo args; cat /proc/[0-9]*/cmdline").stdout]
        samples += [subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout]
        time.sleep(0.1)
    texts["processes"] = "".join(samples)
    texts["apply"] = "".join(run.communicate())
    texts["saved plan"], texts["events"] = saved.read_text(), events.read_text()
    for path in site.folder.glob("state/**/*"):
        if path.is_file():
            texts[path.name] = path.read_text()
    texts["inventory show"] = subprocess.run(
        [*site.command("inventory")[:1], "inventory", "show", str(site.inventory), "gpu-x"],
        capture_output=True,
        text=True,
        env=site.env,
        check=True,
    ).stdout
    texts["facts"] = site.run("facts", "--json").stdout
    host.exec("sed -i s/token=/key=/ /root/credentials", check=True)
    drift = site.run("plan", "--diff", "full")
    texts["plan of another content"] = drift.stdout + drift.stderr
    return Traces(host, site, texts)


def test_the_value_on_the_host_is_right(traces: Traces) -> None:
    assert traces.host.get("/root/credentials").decode() == f"key={SECRET}\n"
    assert traces.host.get("/root/given").decode() == SECRET
    assert traces.host.exec("stat -c %a /root/credentials").stdout.strip() == "600", "not readable for everybody"


def test_it_is_nowhere_else(traces: Traces) -> None:
    assert {"plan", "saved plan", "apply", "events", "journal.jsonl", "report.json", "processes"} <= traces.texts.keys()
    assert "sleep 3" in traces.texts["processes"], "the processes were looked at while the command ran"
    assert [name for name, text in traces.texts.items() if TRACE in text] == []
    assert (
        traces.host.exec(f"grep -rl {TRACE} /run/provision /var/lib/provision /tmp /var/log 2>/dev/null").stdout == ""
    )


def test_its_reference_stands_for_it(traces: Traces) -> None:
    assert f"+token={REFERENCE}" in traces.texts["plan"].replace("+ token", "+token")
    assert REFERENCE in traces.texts["inventory show"]
    answer = json.loads(traces.texts["apply"][: traces.texts["apply"].rindex("}") + 1])
    outputs = [change["output"] for change in answer["hosts"]["gpu-x"]["changes"]]
    assert outputs == ["", f"the token is {REFERENCE}\n"]
    assert f"key={REFERENCE}" in traces.texts["plan of another content"], "what the host says is masked too"


def test_a_saved_plan_notices_another_secret(traces: Traces) -> None:
    saved = traces.site.folder / "again.plan"
    traces.site.run("plan", "--out", str(saved))
    assert (saved.stat().st_mode & 0o777) == 0o600
    traces.site.environment["TOKEN"] = "something else"
    answer = traces.site.json("apply", "--plan", str(saved), "--yes")
    traces.site.environment["TOKEN"] = SECRET
    assert answer["error"]["kind"] == "PlanMoved"
    assert "secret has changed" in answer["error"]["what"]


@pytest.mark.parametrize(("mode", "well"), [(0o600, True), (0o400, True), (0o644, False), (0o640, False)])
def test_a_file_with_a_secret_must_be_private(traces: Traces, site: Site, mode: int, well: bool) -> None:
    path = Path(site.folder / "token")
    path.write_text(f"{SECRET}\n")
    path.chmod(mode)
    site.write(
        traces.host,
        text='[vars]\ntoken = { secret = "token", from = "file:token" }',
        playbook=book('task = "file"\npath = "/root/given"\ncontent = "{{ token }}"\nmode = "0644"'),
    )
    answer = site.json("plan")
    if well:
        assert answer["hosts"]["gpu-x"]["status"] == "ok", "the line's end doesn't count"
    else:
        assert answer["exit_code"] == 1
        assert "chmod 600" in answer["error"]["remedy"]
        assert TRACE not in json.dumps(answer)


def test_a_secret_cannot_be_given_on_the_command_line(traces: Traces) -> None:
    answer = traces.site.json("plan", "--set", "token=Tr0ub4dor")
    assert answer["exit_code"] != 0
    assert "secret" in answer["error"]["what"] + answer["error"]["why"]
    assert "Tr0ub4dor" not in json.dumps(answer)
