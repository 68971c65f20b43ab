"""What runs on a host now and would be hurt by a disruption."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe


@dataclass(frozen=True, slots=True)
class Workload:
    """What runs on the host and would be hurt by a disruption.

    gpu_processes  "PID NAME" of processes that hold an NVIDIA device file, daemons of the driver left out
    containers     "NAMESPACE/POD/CONTAINER" (or "NAMESPACE/ID") of running containers that aren't a node's own
    kubelet        unit name of an active kubelet (kubelet, k3s, k3s-agent, rke2-agent, rke2-server), or ""
    """

    gpu_processes: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    kubelet: str = ""

    @property
    def busy(self) -> bool:
        return bool(self.gpu_processes or self.containers)

    @property
    def text(self) -> str:
        """For people: "2 GPU processes (4711 python3, …), 1 container (default/train/main)"."""
        parts = []
        for one, many, some in (
            ("GPU process", "GPU processes", self.gpu_processes),
            ("container", "containers", self.containers),
        ):
            if some:
                named = ", ".join(some[:3]) + (", …" if len(some) > 3 else "")
                parts.append(f"{len(some)} {one if len(some) == 1 else many} ({named})")
        return " and ".join(parts)


OWN_NAMESPACES = ("kube-system", "gpu-operator", "nvidia-device-plugin", "calico-system", "cilium", "tigera-operator")
"""Pod namespaces whose pods belong to the node itself (DaemonSets of the cluster) and don't count as workload."""

DRIVER_DAEMONS = (
    "nvidia-persiste",
    "nv-fabricmanage",
    "nv-hostengine",
    "nvidia-imex",
    "dcgm-exporter",
    "nvidia-device-p",
)
"""Process names (15 characters of comm) that hold device files as part of the driver stack."""


@dataclass(frozen=True)
class WorkloadProbe(Probe[Workload]):
    """Holders of /dev/nvidia* by file descriptor; running containers of containerd (all namespaces); kubelet."""

    @property
    def key(self) -> str:
        return "workload"

    def script(self) -> str:
        return r"""
kubelets='kubelet k3s k3s-agent rke2-agent rke2-server'
# One line for each, "inactive" for a unit that isn't there.
set -- $(bounded 10 systemctl is-active $kubelets 2>/dev/null)
if [ $# -eq 5 ]; then
    for u in $kubelets; do
        case $1 in active | reloading) printf 'kubelet %s\n' "$u"; break ;; esac
        shift
    done
elif [ -d /run/systemd/system ]; then unknown "systemd doesn't tell whether a kubelet is active"
fi
find /proc/[0-9]*/fd -lname '/dev/nvidia*' 2>/dev/null | cut -d/ -f3 | sort -un | while read -r p; do
    read -r c 2>/dev/null <"/proc/$p/comm" && printf 'process %s %s\n' "$p" "$c"
done
for s in /run/containerd/containerd.sock /run/k3s/containerd/containerd.sock; do
    [ -S "$s" ] || continue
    if command -v ctr >/dev/null 2>&1; then c=ctr
    elif [ -x /var/lib/rancher/rke2/bin/ctr ]; then c=/var/lib/rancher/rke2/bin/ctr
    elif command -v k3s >/dev/null 2>&1; then c='k3s ctr'
    else unknown "$s is there, and no ctr to list its containers"; fi
    ns=$(bounded 10 $c -a "$s" namespaces ls -q) || {
        # Nothing answers. Without containerd, or without a shim, no container is up either (comm: 15 characters).
        grep -qsx containerd /proc/[0-9]*/comm || continue
        grep -qs '^containerd-shim' /proc/[0-9]*/comm || continue
        unknown "containerd doesn't answer on $s and containers are running"
    }
    for n in $ns; do
        t=$(bounded 10 $c -a "$s" -n "$n" tasks ls) || unknown "containerd doesn't list the tasks of $n"
        printf '%s\n' "$t" | awk -v n="$n" 'NR > 1 && $3 != "STOPPED" {print n, $1}' | while read -r n id; do
            l=$(bounded 10 $c -a "$s" -n "$n" containers info "$id" | tr -d '", ' | awk -F: '
                $1 == "io.cri-containerd.kind" {k = $2} $1 == "io.kubernetes.pod.namespace" {ns = $2}
                $1 == "io.kubernetes.pod.name" {p = $2} $1 == "io.kubernetes.container.name" {c = $2}
                END {print k "/" ns "/" p "/" c}')
            printf 'container %s %s %s\n' "$n" "$id" "${l:-///}"
        done
    done
done
"""

    def parse(self, output: Output) -> Workload:
        kubelet, processes, containers = "", [], []
        for line in output.text.splitlines():
            word, _, rest = line.partition(" ")
            if word == "kubelet":
                kubelet = rest
            elif word == "process" and rest.split(" ", 1)[-1] not in DRIVER_DAEMONS:
                processes.append(rest)
            elif word == "container":
                namespace, ident, labels = rest.split(" ", 2)
                kind, pod_namespace, pod, name = labels.split("/", 3)
                if kind == "sandbox" or pod_namespace in OWN_NAMESPACES:
                    continue
                containers.append(f"{pod_namespace}/{pod}/{name}" if pod else f"{namespace}/{ident}")
        return Workload(tuple(processes), tuple(containers), kubelet)
