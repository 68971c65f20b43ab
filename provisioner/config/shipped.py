"""Where the playbooks and templates that come with the product lie: inside the installed package, or in a checkout."""

from __future__ import annotations

from pathlib import Path

import provisioner


def shipped(kind: str) -> Path:
    """The folder "playbooks" or "templates"."""
    package = Path(provisioner.__file__).resolve().parent
    installed = package / "_data" / kind
    return installed if installed.is_dir() else package.parent / kind
