"""containerd's configuration: the handler `nvidia` added, judged and removed, as pure functions over file contents."""

from provisioner.containerd.cdi import cdi_driver_version
from provisioner.containerd.edit import BINARY, CONFIG, edit
from provisioner.containerd.imports import imported_patterns
from provisioner.containerd.judge import Handler, Handlers, handlers, judge, needed_plugins, plugins_ok
from provisioner.containerd.k3s import edit_own_config, flavour, generated_problems, own_config
from provisioner.containerd.remove import remove
from provisioner.containerd.result import Edit, Mode, Problem, Refusal
from provisioner.containerd.toolkit import TOOLKIT_CONFIG, edit_toolkit, ldconfig

__all__ = [
    "BINARY",
    "CONFIG",
    "TOOLKIT_CONFIG",
    "Edit",
    "Handler",
    "Handlers",
    "Mode",
    "Problem",
    "Refusal",
    "cdi_driver_version",
    "edit",
    "edit_own_config",
    "edit_toolkit",
    "flavour",
    "generated_problems",
    "handlers",
    "imported_patterns",
    "judge",
    "ldconfig",
    "needed_plugins",
    "own_config",
    "plugins_ok",
    "remove",
]
