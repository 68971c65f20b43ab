"""Who else owns the driver of a host: a GPU Operator, or the managed node pool of a cloud."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe


@dataclass(frozen=True, slots=True)
class Ownership:
    """Evidence found on the host, as sentences; empty where there is none.

    operator_driver   a driver container of the GPU Operator provides the driver
    operator_toolkit  the GPU Operator's toolkit container installs the toolkit and edits containerd's configuration
    operator_seen     the GPU Operator validates this node, with the host's own driver
    pool              the host is a node of a managed pool; `pool_name` "GKE", "EKS" or "AKS"
    """

    operator_driver: tuple[str, ...] = ()
    operator_toolkit: tuple[str, ...] = ()
    operator_seen: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    pool_name: str = ""


@dataclass(frozen=True)
class OwnershipProbe(Probe[Ownership]):
    """Reads only marks that the owners themselves rely on.

    The driver container mounts its root at /run/nvidia/driver, writes its process id to
    /run/nvidia/nvidia-driver.pid (both constants of NVIDIA/k8s-driver-manager) and touches
    /run/nvidia/validations/.driver-ctr-ready. The operator's validator writes validations/driver-ready with the
    line IS_HOST_DRIVER=true or =false (NVIDIA/gpu-operator, cmd/nvidia-validator), which decides who provides the
    driver. The toolkit container installs into /usr/local/nvidia/toolkit and stays as the process nvidia-toolkit
    (later nvidia-ctk-installer) that watches over containerd's configuration. All but that folder are gone after
    a boot, so what is found is of this boot.

    Managed pools: GKE runs /home/kubernetes/bin/kubelet with /home/kubernetes/kubelet-config.yaml; EKS images
    join the cluster by /etc/eks/bootstrap.sh (a hybrid node, joined by nodeadm, is the site's own and doesn't have
    it); AKS images (Azure/AgentBaker) hold /opt/azure/vhd-install.complete.
    """

    @property
    def key(self) -> str:
        return "owner of the driver"

    def script(self) -> str:
        return r"""
v=/run/nvidia/validations
host=; [ -r "$v/driver-ready" ] && host=$(sed -n 's/^IS_HOST_DRIVER=//p' "$v/driver-ready")
[ -e "$v/host-driver-ready" ] && host=true
if [ "$host" != true ]; then
    [ "$host" = false ] && echo "driver $v/driver-ready says IS_HOST_DRIVER=false"
    [ -e "$v/.driver-ctr-ready" ] && echo "driver $v/.driver-ctr-ready is there"
    [ -r /proc/self/mountinfo ] || unknown '/proc/self/mountinfo cannot be read'
    awk '$5 == "/run/nvidia/driver" {print "driver /run/nvidia/driver is mounted"; exit}' /proc/self/mountinfo
    if read -r p 2>/dev/null </run/nvidia/nvidia-driver.pid && [ -d "/proc/$p" ]; then
        echo "driver process $p of /run/nvidia/nvidia-driver.pid runs"
    fi
fi
[ "$host" = true ] && echo "seen $v says that the host's own driver is used"
t=/usr/local/nvidia/toolkit
if [ -e "$t/nvidia-container-runtime" ] && p=$(grep -lsxE 'nvidia-toolkit|nvidia-ctk-inst' /proc/[0-9]*/comm)
then
    p=${p%%/comm*}
    echo "toolkit $t holds the runtime, and process ${p##*/} keeps it there"
fi
k=/home/kubernetes
[ -e "$k/bin/kubelet" ] && [ -e "$k/kubelet-config.yaml" ] && echo "GKE kubelet and configuration lie in $k"
[ -e /etc/eks/bootstrap.sh ] && echo 'EKS /etc/eks/bootstrap.sh is there'
[ -e /opt/azure/vhd-install.complete ] && echo 'AKS /opt/azure/vhd-install.complete is there'
exit 0
"""

    def parse(self, output: Output) -> Ownership:
        found: dict[str, list[str]] = {}
        for line in output.text.splitlines():
            word, _, sentence = line.partition(" ")
            found.setdefault(word, []).append(sentence)
        pools = [name for name in ("GKE", "EKS", "AKS") if name in found]
        return Ownership(
            operator_driver=tuple(found.get("driver", ())),
            operator_toolkit=tuple(found.get("toolkit", ())),
            operator_seen=tuple(found.get("seen", ())),
            pool=tuple(found[pools[0]]) if pools else (),
            pool_name=pools[0] if pools else "",
        )
