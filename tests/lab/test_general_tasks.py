"""The general tasks on a real host: applied once, settled at the second run, and careful with what is there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab import Lab, LabHost
from tests.lab.site import Site, book

TASKS = {
    "file": 'path = "/etc/motd"\ncontent = "{{ host.name }}: ask first\\n"\nmode = "0640"\ngroup = "adm"',
    "template": 'source = "hosts.j2"\npath = "/etc/site/peers"\nvalues = { peers = ["a", "b"] }',
    "directory": 'path = "/srv/models/cache"\nmode = "2775"\ngroup = "adm"',
    "line": 'path = "/etc/ssh/sshd_config"\nmatch = \'^#?\\s*X11Forwarding\\b\'\nline = "X11Forwarding no"',
    "toml.merge": 'path = "/etc/site/settings.toml"\nvalues = { log = { level = "info" } }\nremove = ["old.key"]',
    "sysctl": 'key = "net.ipv4.tcp_keepalive_time"\nvalue = 600',
    "kernel.modules": 'file = "site"\nkeep_out = ["pcspkr"]\noptions = { nvidia = "NVreg_Option=1" }',
    "packages": 'names = ["tree"]\nhold = true',
    "service": 'unit = "site.service"\nenabled = true\nstate = "started"\nrestart_on = ["/etc/site/peers"]',
    "command": 'run = "sed -n \'$=\' /etc/site/peers >/srv/count"\ncreates = "/srv/count"',
}
BOOK = book(*(f'task = "{name}"\n{fields}' for name, fields in TASKS.items()))
SETTINGS = "# ours\n[log]\nlevel = 'debug' # too much\nfile = \"x\"\n\n[old]\nkey = 1\nother = 2\n"
UNIT = """\
[Service]
ExecStart=/bin/sh -c 'cat /etc/site/peers >/run/read; exec sleep 9999'
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture(scope="module")
def spare(lab: Lab) -> LabHost:
    """Debian 13, with what a site had put there before."""
    lab.reset("gpu-y")
    host = lab.host("gpu-y")
    host.put("/etc/site/settings.toml", SETTINGS)
    host.put("/etc/systemd/system/site.service", UNIT)
    return host


@pytest.fixture(scope="module")
def managed(spare: LabHost, tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("site"))
    (site.folder / "templates").mkdir()
    (site.folder / "templates/hosts.j2").write_text(
        "{% for peer in peers %}\n{{ peer }} of {{ host.name }}\n{% endfor %}\n"
    )
    site.write(spare, playbook=BOOK)
    return site


@pytest.fixture(scope="module")
def first(managed: Site, spare: LabHost) -> dict[str, Any]:
    """The host's part of what the first apply reports."""
    spare.clear_sshd_log()
    answer = managed.json("apply", "--yes")
    assert answer["exit_code"] == 0, answer["hosts"]["gpu-y"]["message"]
    host: dict[str, Any] = answer["hosts"]["gpu-y"]
    return host


def test_every_task_does_its_work(first: dict[str, Any], spare: LabHost) -> None:
    assert first["status"] == "changed"
    assert {change["task"] for change in first["changes"]} == set(TASKS)
    assert (first["execs"], spare.executions()) == (3, 3), "read, do, read"

    def sh(command: str) -> str:
        return spare.exec(command).stdout.strip()

    assert spare.get("/etc/motd") == b"gpu-y: ask first\n"
    assert sh("stat -c '%a %U %G' /etc/motd") == "640 root adm"
    assert spare.get("/etc/site/peers") == b"a of gpu-y\nb of gpu-y\n"
    assert sh("stat -c '%a %G' /srv/models/cache") == "2775 adm"
    assert sh("grep -n X11Forwarding /etc/ssh/sshd_config | cut -d: -f2") == "X11Forwarding no"
    assert spare.get("/etc/site/settings.toml").decode() == SETTINGS.replace("'debug'", '"info"').replace(
        "key = 1\n", ""
    )
    assert sh("cat /proc/sys/net/ipv4/tcp_keepalive_time; cat /etc/sysctl.d/90-provision-*").split()[::3] == [
        "600",
        "600",
    ]
    assert sh("cat /etc/modprobe.d/provision-site.conf").splitlines() == [
        "blacklist pcspkr",
        "install pcspkr /bin/false",
        "options nvidia NVreg_Option=1",
    ]
    assert sh("dpkg-query -W -f '${db:Status-Status}' tree; apt-mark showhold") == "installedtree"
    assert sh("systemctl is-enabled site; systemctl is-active site").split() == ["enabled", "active"]
    assert sh("cat /srv/count") == "2"


@pytest.mark.usefixtures("first")
def test_a_second_run_changes_nothing_with_one_execution(managed: Site, spare: LabHost) -> None:
    spare.clear_sshd_log()
    again = managed.json("apply", "--yes")["hosts"]["gpu-y"]
    assert (again["status"], again["changed"], again["deferred"]) == ("ok", 0, 0), again
    assert (again["execs"], again["connections"]) == (1, 1)
    assert (spare.executions(), spare.connections()) == (1, 1), "counted by sshd"
    assert managed.run("plan", "--detailed-exitcode").returncode == 0


@pytest.mark.usefixtures("first")
def test_a_service_is_restarted_when_what_it_reads_changed(managed: Site, spare: LabHost) -> None:
    book_file = managed.folder / "book.toml"
    book_file.write_text(BOOK.replace('["a", "b"]', '["a", "c"]'))
    host = managed.json("apply", "--yes")["hosts"]["gpu-y"]
    book_file.write_text(BOOK)
    assert {change["task"] for change in host["changes"]} == {"template", "service"}, "shown in one plan"
    assert spare.get("/run/read") == b"a of gpu-y\nc of gpu-y\n", "the service has read the new file"


@pytest.mark.usefixtures("first")
def test_a_restart_that_a_run_did_not_come_to_is_made_by_the_next(managed: Site, spare: LabHost) -> None:
    book_file = managed.folder / "book.toml"
    book_file.write_text(book(f'task = "template"\n{TASKS["template"]}').replace('"b"', '"d"'))
    assert managed.json("apply", "--yes")["hosts"]["gpu-y"]["changed"] == 1
    assert b"d of gpu-y" not in spare.get("/run/read"), "the file is new, the service still runs with the old one"
    book_file.write_text(BOOK.replace('"b"', '"d"'))
    host = managed.json("apply", "--yes")["hosts"]["gpu-y"]
    book_file.write_text(BOOK)
    assert [change["task"] for change in host["changes"]] == ["service"]
    assert b"d of gpu-y" in spare.get("/run/read")


def test_mode_owner_link_and_attributes_of_a_file_are_kept(spare: LabHost, site: Site) -> None:
    spare.exec("mkdir -p /root/real && echo old >/root/real/config && ln -s real/config /root/config", check=True)
    spare.exec(
        "chown 1000:adm /root/real/config && chmod 4751 /root/real/config && touch /root/real/config", check=True
    )
    number = {"x86_64": 188, "aarch64": 5}[spare.exec("uname -m").stdout.strip()]
    set_note = "$p='/root/real/config'; $n='user.note'; $v='kept'; exit(syscall(@ARGV[0]+0,$p,$n,$v,4,0) ? 1 : 0)"
    spare.exec(f'perl -e "{set_note.replace("$", chr(92) + "$")}" {number}', check=True)
    assert b"user.note" in xattrs(spare), "the file system has extended attributes"
    site.write(spare, playbook=book('task = "file"\npath = "/root/config"\ncontent = "new\\n"'))
    assert site.json("apply", "--yes")["hosts"]["gpu-y"]["changed"] == 1
    assert spare.get("/root/real/config") == b"new\n"
    assert spare.exec("readlink /root/config").stdout == "real/config\n"
    assert spare.exec("stat -c '%a %u %G' /root/real/config").stdout == "4751 1000 adm\n"
    assert b"user.note" in xattrs(spare)
    assert spare.exec("ls -A /root/real").stdout == "config\n", "no temporary file is left"


def xattrs(host: LabHost) -> bytes:
    """Names of the extended attributes of /root/real/config."""
    number = {"x86_64": 194, "aarch64": 11}[host.exec("uname -m").stdout.strip()]
    script = "$p='/root/real/config'; $b=' ' x 200; $n=syscall($ARGV[0]+0,$p,$b,200); print substr($b,0,$n)"
    return host.exec(f'perl -e "{script.replace("$", chr(92) + "$")}" {number}', check=True).stdout.encode()


def test_what_is_no_file_is_not_replaced_by_one(spare: LabHost, site: Site) -> None:
    spare.exec("mkdir -p /root/folder/inside", check=True)
    site.write(
        spare,
        playbook=book(
            'task = "file"\npath = "/root/folder"\ncontent = ""',
            'task = "file"\nlabel = "other"\npath = "/root/other"\ncontent = ""',
        ),
    )
    answer = site.json("apply", "--yes")
    host = answer["hosts"]["gpu-y"]
    assert (answer["exit_code"], host["status"], host["changed"]) == (1, "refused", 0)
    refusal = host["refusals"][0]
    assert refusal["what"] == "/root/folder is a folder, not a file"
    assert refusal["why"]
    assert refusal["remedy"]
    assert spare.exec("test -d /root/folder/inside && ! test -e /root/other").returncode == 0, (
        "and nothing else is done"
    )


def test_things_are_taken_away(spare: LabHost, site: Site) -> None:
    spare.exec("mkdir -p /root/away; cd /root/away; touch file target; ln -s target link; printf 'a\\nb\\n' >lines")
    spare.exec("apt-get update; apt-get -y install hello", check=True)
    site.write(
        spare,
        playbook=book(
            'task = "file"\nlabel = "one"\npath = "/root/away/file"\nstate = "absent"',
            'task = "file"\nlabel = "two"\npath = "/root/away/link"\nstate = "absent"',
            'task = "line"\npath = "/root/away/lines"\nline = "a"\nstate = "absent"',
            'task = "packages"\nnames = ["hello"]\nstate = "absent"',
        ),
    )
    assert site.json("apply", "--yes")["hosts"]["gpu-y"]["changed"] == 4
    assert spare.exec("ls /root/away").stdout.split() == ["lines", "target"], "a link is removed, not what it leads to"
    assert spare.get("/root/away/lines") == b"b\n"
    assert "hello" not in spare.packages()
    assert site.json("apply", "--yes")["hosts"]["gpu-y"]["execs"] == 1
