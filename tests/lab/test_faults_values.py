"""Names and values are data: whatever stands in them is never run, and arrives as it was written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from provisioner import api
from provisioner.tasks.packages import GeneralPackages
from tests.lab import Lab, LabHost
from tests.lab.site import Site, book

NASTY = "a b'c\"d`touch /tmp/canary`$(touch /tmp/canary);touch /tmp/canary\n-rf ü €\\n\t{{ 1 }} $HOME @ %s !"
"""Everything that a shell, a template or a format could fall for."""
NAME = "-n o'd\"d `touch /tmp/canary` $(touch /tmp/canary);touch canary ü\nnext"

ODD = book(
    'task = "directory"\npath = "/root/{{ odd.name }}"',
    'task = "file"\nlabel = "inside"\npath = "/root/{{ odd.name }}/{{ odd.name }}"\ncontent = "{{ odd.value }}"',
    'task = "template"\nsource = "odd.j2"\npath = "/root/rendered"\nvalues = { given = "{{ odd.value }}" }',
    'task = "file"\nlabel = "raw"\npath = "/root/raw"\nsource = "raw"',
    """
task = "command"
summary = "{{ odd.value }}"
run = "printf '%s' {{ odd.value | quote }} >/root/argument"
creates = "/root/argument"
disruption = "none"
""",
    """
task = "command"
label = "test"
run = "mkdir /root/{{ odd.name | quote }}.d"
unless = "test -d /root/{{ odd.name | quote }}.d"
disruption = "none"
""",
    """task = "line"\npath = "/root/lines"\nline = "{{ odd.value | replace('\\n', ' ') }}"\ncreate = true""",
)


@pytest.fixture(scope="module")
def spare(lab: Lab) -> Iterator[LabHost]:
    """One host for the whole file; in the end nothing may have run on it that stood in a value."""
    lab.reset("gpu-x")
    host = lab.host("gpu-x")
    yield host
    assert not host.exec("ls /tmp/canary /root/canary /canary 2>/dev/null").stdout, "a value was run as code"
    assert not Path("/tmp/canary").exists(), "here neither"


def toml(text: str) -> str:
    """A TOML string; JSON's escapes are among TOML's."""
    return json.dumps(text)


def test_contents_names_and_arguments_arrive_as_written(spare: LabHost, site: Site) -> None:
    (site.folder / "templates").mkdir()
    (site.folder / "templates" / "odd.j2").write_text("[{{ odd.value }}|{{ given }}]")
    (site.folder / "files").mkdir()
    (site.folder / "files" / "raw").write_bytes(bytes(range(256)))
    site.write(spare, text=f"[vars.odd]\nvalue = {toml(NASTY)}\nname = {toml(NAME)}\n", playbook=ODD)
    host = site.json("apply", "--yes")["hosts"]["gpu-x"]
    assert (host["status"], host["changed"], host["execs"]) == ("changed", 7, 3), host
    assert spare.get(f"/root/{NAME}/{NAME}").decode() == NASTY
    assert spare.get("/root/rendered").decode() == f"[{NASTY}|{NASTY}]"
    assert spare.get("/root/raw") == bytes(range(256)), "bytes that aren't UTF-8 too"
    assert spare.get("/root/argument").decode() == NASTY
    assert spare.get("/root/lines").decode() == NASTY.replace("\n", " ") + "\n"
    again = site.json("apply", "--yes")["hosts"]["gpu-x"]
    assert (again["status"], again["changed"], again["execs"]) == ("ok", 0, 1), again


def test_bytes_that_are_not_utf8_stay_in_a_file_that_is_edited(spare: LabHost, site: Site) -> None:
    spare.put("/root/latin", b"caf\xe9\nlast\n")
    site.write(spare, playbook=book('task = "line"\npath = "/root/latin"\nline = "added"'))
    assert site.run("plan", "--diff", "full").returncode == 0
    assert site.json("apply", "--yes")["exit_code"] == 0
    assert spare.get("/root/latin") == b"caf\xe9\nlast\nadded\n"


@pytest.mark.parametrize(
    "word",
    [
        "tree;touch /tmp/canary",
        "$(touch /tmp/canary)",
        "-oAPT::Update::Pre-Invoke::=touch${IFS}/tmp/canary",
        "tree=1`touch /tmp/canary`",
        "tree\nhello",
        "./tree",
        "tree-",
        "",
    ],
)
def test_what_is_no_package_name_is_refused(word: str) -> None:
    with pytest.raises(api.ProvisionError, match="isn't a name"):
        GeneralPackages(names=("hello", word))


def test_a_bad_package_name_is_told_before_connecting(spare: LabHost, site: Site) -> None:
    spare.clear_sshd_log()
    bad = "tree -oDPkg::Pre-Invoke::=touch${IFS}/tmp/canary"
    site.write(spare, playbook=book(f'task = "packages"\nnames = ["{bad}"]'))
    answer = site.json("apply", "--yes")
    assert (answer["exit_code"], answer["error"]["kind"]) == (1, "PlaybookError")
    assert str(site.folder / "book.toml") in answer["error"]["file"]
    assert spare.connections() == 0


def test_exec_takes_several_words_as_they_are(spare: LabHost, site: Site) -> None:
    site.write(spare, playbook=book())
    answer = json.loads(site.run("exec", "--yes", "--json", "--", "printf", "%s", NASTY).stdout)
    assert answer["hosts"]["gpu-x"]["changes"][0]["output"] == NASTY


def test_what_a_host_prints_cannot_drive_the_terminal(spare: LabHost, site: Site) -> None:
    site.write(spare, playbook=book())
    done = site.run("exec", "--yes", "--", r"printf '\033]0;owned\007\033[2Jred\n'")
    assert done.returncode == 0
    assert "\033" not in done.stdout + done.stderr
    assert "\007" not in done.stdout + done.stderr
    assert "red" in done.stdout


def test_a_host_cannot_make_up_the_result_of_a_change(spare: LabHost, site: Site) -> None:
    forged = r"printf '@end 1 0 1 0 0\n@stage-done\n'; exit 3"
    site.write(
        spare,
        playbook=book(f"task = \"command\"\nrun = '''{forged}'''\ncreates = \"/root/never\"\ndisruption = \"none\""),
    )
    host = site.json("apply", "--yes")["hosts"]["gpu-x"]
    assert (host["status"], host["changed"], host["failed"]) == ("failed", 0, 1)


@pytest.mark.parametrize("verb", ["apply", "exec"])
def test_a_host_name_is_no_code(spare: LabHost, site: Site, verb: str) -> None:
    site.write(spare, text='[hosts."$(touch /tmp/canary)"]\naddress = "127.0.0.1"\n', playbook=book())
    done = site.run(verb, "--yes", *(["--", "true"] if verb == "exec" else []))
    assert done.returncode == 1
    assert "site.toml:" in done.stderr, "with its place"
