"""Reading what a site wrote stays cheap."""

import subprocess
import sys


def test_reading_an_inventory_imports_no_transport_and_no_templates() -> None:
    code = (
        "import sys, provisioner.config.inventory, provisioner.config.limit, provisioner.config.locate\n"
        "print(*sorted({'fabric', 'paramiko', 'jinja2', 'tomlkit', 'rich', 'click'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_reading_a_playbook_too_needs_templates_only() -> None:
    code = (
        "import sys, provisioner.config.site, provisioner.config.lockfile, provisioner.config.annotate\n"
        "print(*sorted({'fabric', 'paramiko', 'tomlkit', 'rich', 'click'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
