"""The lab: Docker containers with systemd and sshd that behave like hosts with NVIDIA cards.

``Lab`` is the way in for tests; ``python -m tests.lab`` the one for people. See README.md beside this file.
"""

from tests.lab.card import Card
from tests.lab.host import HOSTS, HostSpec, LabHost
from tests.lab.lab import Lab

__all__ = ["HOSTS", "Card", "HostSpec", "Lab", "LabHost"]
