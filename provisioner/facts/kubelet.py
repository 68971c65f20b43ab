"""The kubelet of a host: which kind, and the cgroup driver it uses."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe


@dataclass(frozen=True, slots=True)
class Kubelet:
    """`unit` without ".service"; `active`: it runs now. `cgroup_driver` "systemd" or "cgroupfs" as a flag or the
    configuration says, "" where neither does: the kubelet then takes cgroupfs, or from Kubernetes 1.31 on what
    the runtime tells it (KubeletCgroupDriverFromCRI), so that "" decides nothing. `source` is the file or "flag"."""

    unit: str
    active: bool
    cgroup_driver: str = ""
    source: str = ""
    root: str = "/var/lib/kubelet"

    @property
    def generates_containerd_config(self) -> bool:
        """k3s and RKE2 bring their own containerd and write its configuration themselves."""
        return self.unit.startswith(("k3s", "rke2"))


@dataclass(frozen=True)
class KubeletProbe(Probe[Kubelet]):
    """Absent when no unit of a kubelet exists. The flags of a running kubelet count first (they override its
    configuration), then the files that kubeadm and packages put flags into, then the configuration with its
    drop-in folder; its `cgroupDriver` is a key at the top level of YAML or JSON."""

    @property
    def key(self) -> str:
        return "kubelet"

    def script(self) -> str:
        return r"""
unit=
for u in kubelet k3s k3s-agent rke2-server rke2-agent snap.kubelet-eks.daemon; do
    for d in /etc/systemd /run/systemd /usr/local/lib/systemd /usr/lib/systemd /lib/systemd; do
        [ -e "$d/system/$u.service" ] || continue
        [ -z "$unit" ] && unit=$u
        systemctl is-active -q "$u" 2>/dev/null && { unit=$u; active=yes; break 2; }
        break
    done
done
[ -n "$unit" ] || absent
printf 'unit %s %s\n' "$unit" "${active:-no}"
flags=$(for p in $(grep -lsx kubelet /proc/[0-9]*/comm); do tr '\0' '\n' <"${p%comm}cmdline"; break; done)
f=/var/lib/kubelet/kubeadm-flags.env
[ -n "$flags" ] || flags=$(cat "$f" /etc/default/kubelet /etc/sysconfig/kubelet 2>/dev/null |
    tr ' "' '\n\n' | sed 's/^[A-Z_]*=-/-/')
flag() { printf '%s\n' "$flags" | awk -v f="--$1" '
    index($0, f "=") == 1 {v = substr($0, length(f) + 2)} take {v = $0; take = 0} $0 == f {take = 1} END {print v}'; }
root=$(flag root-dir); printf 'root %s\n' "${root:-/var/lib/kubelet}"
c=$(flag cgroup-driver)
[ -n "$c" ] && { printf 'driver %s flag\n' "$c"; exit 0; }
file=$(flag config); : "${file:=/var/lib/kubelet/config.yaml}"
dir=$(flag config-dir)
for f in "$file" ${dir:+"$dir"/*.conf}; do
    [ -e "$f" ] || continue
    [ -r "$f" ] || unknown "$f cannot be read"
    c=$(sed -n 's/^ *"\{0,1\}cgroupDriver"\{0,1\} *: *"\{0,1\}\([a-z]*\).*/\1/p' "$f" | tail -n 1)
    [ -n "$c" ] && printf 'driver %s %s\n' "$c" "$f"
done
exit 0
"""

    def parse(self, output: Output) -> Kubelet:
        unit, active, driver, source, root = "", False, "", "", "/var/lib/kubelet"
        for line in output.text.splitlines():
            word, first, *rest = line.split(" ", 2)
            if word == "unit":
                unit, active = first, rest == ["yes"]
            elif word == "root":
                root = first
            elif word == "driver":
                driver, source = first, rest[0]
        if driver not in ("", "systemd", "cgroupfs"):
            raise ValueError(f"cgroup driver {driver!r} in {source}")
        return Kubelet(unit, active, driver, source, root)
