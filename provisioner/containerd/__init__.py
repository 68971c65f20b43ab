"""containerd's configuration: the handler `nvidia` added, judged and removed, as pure functions over file contents."""

from provisioner.containerd.edit import BINARY, CONFIG, edit
from provisioner.containerd.imports import imported_patterns
from provisioner.containerd.remove import remove
from provisioner.containerd.result import Edit, Mode, Problem, Refusal

__all__ = ["BINARY", "CONFIG", "Edit", "Mode", "Problem", "Refusal", "edit", "imported_patterns", "remove"]
