"""The GPU layer of Kubernetes hosts over SSH: read once, planned purely, changed in few executions, read again."""

__version__ = "0.1.0"
