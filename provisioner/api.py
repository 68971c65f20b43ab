"""The names that site code and programs may import; everything else may change between versions.

    from provisioner import api

    with api.open("inventories/prod.toml", limit="h100") as session:
        plan = session.plan()
        result = session.apply(plan)

`docs/library.md` and `docs/writing-tasks.md` show them at work.
"""

from provisioner.engine.opening import catalogue as task_catalogue
from provisioner.engine.opening import load
from provisioner.engine.opening import open_session as open
from provisioner.engine.session import Session
from provisioner.errors import ProvisionError
from provisioner.facts.files import FileProbe, FileState
from provisioner.model.action import (
    Action,
    Guarded,
    Link,
    MakeDirectory,
    Packages,
    Reboot,
    RemoveFile,
    Restore,
    Run,
    Service,
    WriteFile,
)
from provisioner.model.change import Change, Deferral, Disruption, Finding, Kind, Note, Refusal
from provisioner.model.event import Event, Monitor
from provisioner.model.fact import Absent, Fact, Facts, Known, Output, Probe, Unknown
from provisioner.model.inventory import Host, Inventory, Secret
from provisioner.model.plan import HostPlan, Plan
from provisioner.model.planjson import dumps as dump_plan
from provisioner.model.planjson import loads as load_plan
from provisioner.model.result import HostResult, Outcome, RunResult, Status
from provisioner.quoting import quote, words
from provisioner.tasks.context import Context, Options
from provisioner.tasks.proof import assert_settles
from provisioner.tasks.proof import facts_of as fake_facts
from provisioner.tasks.task import Task, task
from provisioner.upgrade.opening import open_roll

__all__ = [
    "Absent",
    "Action",
    "Change",
    "Context",
    "Deferral",
    "Disruption",
    "Event",
    "Fact",
    "Facts",
    "FileProbe",
    "FileState",
    "Finding",
    "Guarded",
    "Host",
    "HostPlan",
    "HostResult",
    "Inventory",
    "Kind",
    "Known",
    "Link",
    "MakeDirectory",
    "Monitor",
    "Note",
    "Options",
    "Outcome",
    "Output",
    "Packages",
    "Plan",
    "Probe",
    "ProvisionError",
    "Reboot",
    "Refusal",
    "RemoveFile",
    "Restore",
    "Run",
    "RunResult",
    "Secret",
    "Service",
    "Session",
    "Status",
    "Task",
    "Unknown",
    "WriteFile",
    "assert_settles",
    "dump_plan",
    "fake_facts",
    "load",
    "load_plan",
    "open",
    "open_roll",
    "quote",
    "task",
    "task_catalogue",
    "words",
]
