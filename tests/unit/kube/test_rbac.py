"""What a roll needs is asked for, named when it is missing, and granted by the file that we ship."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from provisioner.errors import Forbidden
from provisioner.kube import rbac
from tests.unit.kube.memory import MemoryKubectl, api_of

FILE = Path(__file__).parents[3] / "templates/rbac/provision-upgrade.yaml"


def granted() -> set[tuple[str, str, str, str]]:
    """(namespace, group, resource/subresource, verb) of all rules."""
    # kubectl reads the file as it would to apply it, without a cluster.
    kubectl = Path(sys.executable).with_name("kubectl")
    command = [str(kubectl), "label", "--local", "--filename", str(FILE), "--output", "json", "read=yes"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    decoder, found = json.JSONDecoder(), set()
    while said.strip():
        item, end = decoder.raw_decode(said.lstrip())
        said = said.lstrip()[end:]
        for rule in item.get("rules") or []:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        found.add((item["metadata"].get("namespace", ""), group, resource, verb))
    return found


def needed() -> set[tuple[str, str, str, str]]:
    return {
        (need.namespace, need.group, f"{need.resource}/{need.subresource}".rstrip("/"), need.verb)
        for need in rbac.NEEDED
    }


def test_the_file_grants_what_is_needed_and_no_more() -> None:
    assert granted() == needed()


def test_every_missing_verb_is_named_with_what_it_is_for() -> None:
    kubectl = MemoryKubectl()
    kubectl.denied = {("create", "pods/eviction"), ("patch", "nodes")}
    with pytest.raises(Forbidden) as caught:
        rbac.require(api_of(kubectl)[0])
    assert "create pods/eviction (to evict pods)" in caught.value.why
    assert "patch nodes" in caught.value.why
    assert "provision-upgrade.yaml" in caught.value.remedy


def test_what_a_roll_can_do_without_is_only_told() -> None:
    kubectl = MemoryKubectl()
    kubectl.denied = {("create", "events"), ("list", "resourceclaims")}
    assert [need.text for need in rbac.require(api_of(kubectl)[0])] == [
        "list resourceclaims.resource.k8s.io",
        "create events in default",
    ]
