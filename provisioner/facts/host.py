"""What every observation asks: which machine, which system, what runs on it now."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe


@dataclass(frozen=True, slots=True)
class System:
    """`distribution` is os-release's ID plus VERSION_ID ("debian12", "ubuntu22.04"); `id_like` its family words;
    `arch` as the package manager names it on deb systems ("amd64"); `machine` as `uname -m`."""

    id: str
    version: str
    id_like: tuple[str, ...]
    codename: str
    kernel: str
    machine: str
    hostname: str

    @property
    def distribution(self) -> str:
        return f"{self.id}{self.version}"

    @property
    def family(self) -> str:
        """ "debian", "rhel", or the id itself when neither fits."""
        names = (self.id, *self.id_like)
        for family in ("debian", "rhel"):
            if family in names or (family == "rhel" and "fedora" in names):
                return family
        return self.id

    @property
    def arch(self) -> str:
        return {"x86_64": "amd64", "aarch64": "arm64"}.get(self.machine, self.machine)


@dataclass(frozen=True)
class SystemProbe(Probe[System]):
    """os-release, kernel and architecture."""

    @property
    def key(self) -> str:
        return "system"

    def script(self) -> str:
        return """\
uname -r; uname -m; cat /proc/sys/kernel/hostname
f=/etc/os-release; [ -r "$f" ] || f=/usr/lib/os-release
[ -r "$f" ] || unknown 'no os-release file'
cat "$f"
"""

    def parse(self, output: Output) -> System:
        kernel, machine, hostname, *rest = output.text.splitlines()
        pairs = dict(line.split("=", 1) for line in rest if "=" in line and not line.startswith("#"))
        values = {name: value.strip().strip("\"'") for name, value in pairs.items()}
        if "ID" not in values:
            raise ValueError("os-release has no ID")
        return System(
            id=values["ID"],
            version=values.get("VERSION_ID", ""),
            id_like=tuple(values.get("ID_LIKE", "").split()),
            codename=values.get("VERSION_CODENAME", ""),
            kernel=kernel,
            machine=machine,
            hostname=hostname,
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """Which machine and which boot. A boot is recognised by boot id *and* start of PID 1 (clock ticks), since a
    container's boot id is its kernel's. `systemd` tells whether systemd runs as PID 1."""

    machine_id: str
    boot_id: str
    pid1_start: int
    systemd: bool

    @property
    def boot(self) -> str:
        return f"{self.boot_id}/{self.pid1_start}"

    @property
    def text(self) -> str:
        return f"{self.machine_id}/{self.boot}"


@dataclass(frozen=True)
class IdentityProbe(Probe[Identity]):
    """machine-id, boot id, start of PID 1 (field 22 of /proc/1/stat), running systemd."""

    @property
    def key(self) -> str:
        return "identity"

    def script(self) -> str:
        return """\
if [ -r /etc/machine-id ]; then read -r m </etc/machine-id || m=; else m=; fi
read -r b </proc/sys/kernel/random/boot_id
s=$(sed 's/.*) //' /proc/1/stat | cut -d' ' -f20)
d=no; [ -d /run/systemd/system ] && d=yes
printf '%s\\n' "${m:-none}" "$b" "$s" "$d"
"""

    def parse(self, output: Output) -> Identity:
        machine, boot, start, systemd = output.text.split()
        return Identity(machine, boot, int(start), systemd == "yes")


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
for u in kubelet k3s k3s-agent rke2-agent rke2-server; do
    if systemctl is-active -q "$u" 2>/dev/null; then printf 'kubelet %s\n' "$u"; break; fi
done
find /proc/[0-9]*/fd -lname '/dev/nvidia*' 2>/dev/null | cut -d/ -f3 | sort -un | while read -r p; do
    read -r c 2>/dev/null <"/proc/$p/comm" && printf 'process %s %s\n' "$p" "$c"
done
for s in /run/containerd/containerd.sock /run/k3s/containerd/containerd.sock; do
    [ -S "$s" ] || continue
    c=ctr; command -v ctr >/dev/null 2>&1 || { [ -x /var/lib/rancher/rke2/bin/ctr ] && c=/var/lib/rancher/rke2/bin/ctr; }
    if ! command -v "$c" >/dev/null 2>&1; then command -v k3s >/dev/null 2>&1 && c='k3s ctr' || unknown "containers run below $s and there is no ctr to list them"; fi
    ns=$(bounded 10 $c -a "$s" namespaces ls -q) || {
        pgrep -x containerd >/dev/null 2>&1 || continue   # a dead socket: nothing answers and nothing runs it
        pgrep -f containerd-shim >/dev/null 2>&1 || continue   # containerd is down, and no container is up either
        unknown "containerd doesn't answer on $s and containers are running"
    }
    for n in $ns; do
        t=$(bounded 10 $c -a "$s" -n "$n" tasks ls) || unknown "containerd doesn't list the tasks of $n"
        printf '%s\n' "$t" | awk -v n="$n" 'NR > 1 && $3 == "RUNNING" {print n, $1}' | while read -r n id; do
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
