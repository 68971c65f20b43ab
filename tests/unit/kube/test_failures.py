"""What kubectl says becomes the error that a roll reacts to."""

from __future__ import annotations

import pytest

from provisioner.errors import (
    ApiUnreachable,
    Conflict,
    EvictionBlocked,
    Forbidden,
    Invalid,
    KubectlMissing,
    KubeError,
    NotFound,
    TooManyRequests,
)
from provisioner.kube.failures import failure

# Texts of kubectl 1.37 and of API servers 1.29 to 1.36.
SAID: list[tuple[str, type[KubeError]]] = [
    ('Error from server (NotFound): nodes "n9" not found', NotFound),
    ("Error from server (NotFound): the server could not find the requested resource", NotFound),
    (
        'Error from server (Conflict): Operation cannot be fulfilled on nodes "n1": the object has been modified; '
        "please apply your changes to the latest version and try again",
        Conflict,
    ),
    ('Error from server (AlreadyExists): leases.coordination.k8s.io "provision-upgrade" already exists', Conflict),
    (
        "Error from server (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget.",
        EvictionBlocked,
    ),
    (
        "Error from server (TooManyRequests): the server has received too many requests and has asked us to try again",
        TooManyRequests,
    ),
    ("Error from server (ServiceUnavailable): the server is currently unable to handle the request", ApiUnreachable),
    ("Error from server (InternalError): an error on the server", ApiUnreachable),
    ("Error from server: etcdserver: request timed out", ApiUnreachable),
    ("Error from server (Timeout): the server was unable to return a response in the time allotted", ApiUnreachable),
    ("The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?", ApiUnreachable),
    ("Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout", ApiUnreachable),
    ("Unable to connect to the server: EOF", ApiUnreachable),
    ('The Node "n1" is invalid: metadata.labels: Invalid value: "a b"', Invalid),
    ("Error from server (BadRequest): the body of the request was in an unknown format", Invalid),
    ("error: You must be logged in to the server (Unauthorized)", Forbidden),
    ('error: context "nowhere" does not exist', KubectlMissing),
    ('error: error loading config file "/root/x": open /root/x: permission denied', KubectlMissing),
    (
        "Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed by unknown "
        "authority",
        KubectlMissing,
    ),
    ("", KubeError),
]


@pytest.mark.parametrize(("said", "kind"), SAID, ids=[kind.__name__ for _, kind in SAID])
def test_kind_of_failure(said: str, kind: type[KubeError]) -> None:
    error = failure("kubectl get something", f"Warning: something is deprecated\n{said}\n")
    assert type(error) is kind
    assert "kubectl get something" in str(error) or kind in (KubectlMissing, Forbidden)
    assert "deprecated" not in str(error)


def test_a_missing_verb_is_named() -> None:
    error = failure(
        "kubectl patch node n1",
        'Error from server (Forbidden): nodes "n1" is forbidden: User "eve" cannot patch resource "nodes" in API '
        'group "" at the cluster scope',
    )
    assert isinstance(error, Forbidden)
    assert (error.verb, error.resource) == ("patch", "nodes")
    assert "may not patch nodes" in error.what
    assert "provision-upgrade.yaml" in error.remedy


def test_a_missing_verb_of_a_group_and_subresource_is_named() -> None:
    said = (
        'Error from server (Forbidden): pods "p" is forbidden: User "eve" cannot create resource "pods/eviction" in '
        'API group "policy" in the namespace "default"'
    )
    error = failure("kubectl create", said)
    assert isinstance(error, Forbidden)
    assert "create pods/eviction.policy" in error.what
