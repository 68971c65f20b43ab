"""The version of the container runtime."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe


@dataclass(frozen=True)
class ContainerdVersionProbe(Probe[str]):
    """What `containerd --version` prints; absent when there is no containerd.

    k3s and RKE2 bring their own below their data folder; it counts where no other is installed.
    """

    @property
    def key(self) -> str:
        return "containerd version"

    def script(self) -> str:
        return r"""
c=$(command -v containerd) || c=
for f in /var/lib/rancher/rke2/bin/containerd /var/lib/rancher/k3s/data/current/bin/containerd; do
    [ -n "$c" ] || { [ -x "$f" ] && c=$f; }
done
[ -n "$c" ] || absent
bounded 10 "$c" --version || unknown "$c --version fails"
"""

    def parse(self, output: Output) -> str:
        text = output.text.strip()
        if not text:
            raise ValueError("containerd --version prints nothing")
        return text
