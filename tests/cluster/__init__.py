"""A Kubernetes cluster for tests: an API server that real kubectl talks to, and an agent that plays what is behind it.

``Cluster.start()`` is the entry; with KUBEBUILDER_ASSETS set the same tests meet a real kube-apiserver and etcd.
"""

from tests.cluster.apiserver.server import Request
from tests.cluster.cluster import Cluster

__all__ = ["Cluster", "Request"]
