"""Which kubectl talks to the cluster."""

from __future__ import annotations

from provisioner.kube.kubectl import Kubectl
from provisioner.kube.onhost import HostKubectl
from provisioner.kube.proxy import KubectlProxy
from provisioner.model.inventory import Cluster
from provisioner.transport.executor import Executor


def kubectl_of(cluster: Cluster, executor: Executor | None) -> Kubectl:
    """The kubectl that the inventory's [cluster] asks for; `executor` is one of its own to the `kubectl_on` host."""
    if cluster.kubectl_on is None:
        return KubectlProxy(cluster.kubeconfig, cluster.context)
    if executor is None:
        raise ValueError("kubectl_on needs an executor")
    return HostKubectl(executor, cluster.kubeconfig, cluster.context)
