"""What provision-selftest-report does to a node, over real HTTPS: rules of label, cordon and its owners."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.selftest.apiserver import Api, Certificates
from tests.unit.selftest.machine import BOOT_ID, Machine

OWNERS = "provision.dev/cordon-owners"
REASON = "provision.dev/gpu-unhealthy-reason"
FOUND = {"fail": ("FatalXid", "0000:01:00: Xid 79, name=<unknown>"), "pass": ("", "")}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def api(certificates: Certificates) -> Iterator[Api]:
    server = Api(certificates)
    yield server
    server.stop()


class Node:
    """A host that is node gpu01, and what its report leaves behind."""

    def __init__(self, machine: Machine, api: Api, certificates: Certificates) -> None:
        self.machine, self.api, self.certificates = machine, api, certificates
        machine.link("curl")
        machine.settings |= {"NODE_NAME": "gpu01", "REPORT_LIMIT": "20", "REPORT_PAUSE": "1"}
        machine.settings["KUBECONFIG"] = str(machine.root / "kubelet.conf")
        machine.write("state/selftest.trusted", "v1\n")
        self.kubeconfig(
            f"    client-certificate: {certificates.path('node.pem')}",
            f"    client-key: {certificates.path('node.key')}",
        )

    def kubeconfig(self, *user: str, ca: str = "", server: str = "") -> None:
        ca = ca or f"certificate-authority: {self.certificates.ca}"
        cluster = f"- cluster:\n    {ca}\n    server: {server or self.api.url}\n  name: default"
        text = "\n".join(
            ["apiVersion: v1", "kind: Config", "clusters:", cluster, "users:", "- name: default-auth", "  user:", *user]
        )
        self.machine.write("kubelet.conf", text + "\n")

    def found(self, result: str, version: str = "v1", boot_start: str = "547793") -> None:
        """The self-test left this."""
        reason, detail = FOUND.get(result, ("CudaTimeout", "no answer"))
        text = {"result": result, "reason": reason, "detail": detail, "version": version}
        self.machine.write("state/selftest.json", json.dumps({**text, "boot_id": BOOT_ID, "boot_start": boot_start}))

    def report(self, result: str | None = None, rc: int = 0) -> str:
        """Runs the report; the outcome it noted."""
        if result:
            self.found(result)
        done = self.machine.run("provision-selftest-report")
        assert done.returncode == rc, done.stdout + done.stderr
        assert done.stderr == ""
        outcome: str = self.noted()["outcome"]
        return outcome

    def noted(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.machine.state / "selftest-report.json").read_text())
        return loaded

    @property
    def unhealthy(self) -> bool:
        return bool(self.api.node["metadata"]["labels"].get("gpu-unhealthy") == "true")

    @property
    def cordoned(self) -> bool:
        return bool(self.api.node["spec"].get("unschedulable", False))

    @property
    def owners(self) -> str | None:
        owners: str | None = self.api.node["metadata"]["annotations"].get(OWNERS)
        return owners

    @property
    def state(self) -> tuple[bool, bool, str | None]:
        """Labelled, cordoned, by whom."""
        return self.unhealthy, self.cordoned, self.owners

    def patches(self) -> int:
        return sum(method == "PATCH" for method, _ in self.api.requests)


@pytest.fixture
def node(machine: Machine, api: Api, certificates: Certificates) -> Node:
    return Node(machine, api, certificates)


def test_fail_labels_says_why_and_cordons_as_its_owner(node: Node) -> None:
    assert node.report("fail") == "reported"
    assert node.state == (True, True, "self-test")
    assert node.api.node["metadata"]["annotations"][REASON] == "FatalXid: 0000:01:00: Xid 79, name=unknown"
    assert node.api.node["metadata"]["labels"]["a"] == "b"


def test_second_report_of_the_same_changes_nothing(node: Node) -> None:
    node.report("fail")
    assert node.report() == "unchanged"
    assert node.patches() == 1


def test_healthy_node_is_only_read(node: Node) -> None:
    assert node.report("pass") == "unchanged"
    assert [method for method, _ in node.api.requests] == ["GET"]


def test_later_pass_takes_back_all_of_it(node: Node) -> None:
    node.report("fail")
    assert node.report("pass") == "cleared"
    assert node.state == (False, False, None)
    assert REASON not in node.api.node["metadata"]["annotations"]


@pytest.mark.parametrize("result", ["unknown", "off"])
def test_unknown_and_off_never_touch_the_cluster(node: Node, result: str) -> None:
    assert node.report(result) == "unchanged"
    assert node.api.requests == []


def test_unknown_leaves_an_earlier_fail_as_it_is(node: Node) -> None:
    node.report("fail")
    node.report("unknown")
    assert (node.unhealthy, node.cordoned) == (True, True)


def test_result_of_an_earlier_boot_says_nothing(node: Node) -> None:
    node.found("fail", boot_start="1")
    assert node.report() == "unchanged"
    assert node.api.requests == []


def test_version_that_apply_did_not_see_pass_only_observes(node: Node) -> None:
    node.found("fail", version="v2")
    assert node.report() == "observing"
    assert node.api.requests == []
    assert "FatalXid" in node.noted()["detail"]


def test_cordon_of_a_person_before_the_fail_survives_the_pass(node: Node) -> None:
    node.api.cordon("kubectl-cordon")
    node.report("fail")
    assert node.owners == "person,self-test"
    assert node.report("pass") == "cleared"
    assert node.state == (False, True, None)


def test_cordon_of_a_roll_before_the_fail_survives_the_pass(node: Node) -> None:
    node.api.patch(
        {"metadata": {"annotations": {OWNERS: "upgrade"}}, "spec": {"unschedulable": True}}, "provision-upgrade"
    )
    node.report("fail")
    assert node.owners == "self-test,upgrade"
    node.report("pass")
    assert node.state == (False, True, "upgrade")


def test_roll_that_joined_since_keeps_the_cordon(node: Node) -> None:
    node.report("fail")
    node.api.patch({"metadata": {"annotations": {OWNERS: "self-test, upgrade"}}}, "provision-upgrade")
    node.report("pass")
    assert node.state == (False, True, "upgrade")


def test_cordon_of_a_roll_that_left_is_ours_to_end(node: Node) -> None:
    node.api.patch(
        {"metadata": {"annotations": {OWNERS: "upgrade"}}, "spec": {"unschedulable": True}}, "provision-upgrade"
    )
    node.report("fail")
    node.api.patch({"metadata": {"annotations": {OWNERS: "self-test"}}}, "provision-upgrade")
    node.report("pass")
    assert (node.cordoned, node.owners) == (False, None)


def test_person_who_uncordoned_and_cordoned_again_since_keeps_it(node: Node) -> None:
    node.report("fail")
    node.api.cordon("kubectl", on=False)
    node.api.cordon("kubectl-cordon")
    node.report("pass")
    assert node.state == (False, True, None)


def test_owners_of_a_cordon_that_is_no_more_are_history(node: Node) -> None:
    node.api.patch({"metadata": {"annotations": {OWNERS: "upgrade"}}}, "provision-upgrade")
    node.report("fail")
    assert (node.cordoned, node.owners) == (True, "self-test")


def test_pass_leaves_a_foreign_cordon_alone(node: Node) -> None:
    node.api.cordon("kubectl-cordon")
    assert node.report("pass") == "unchanged"
    assert (node.cordoned, node.patches()) == (True, 0)


def test_annotation_of_the_node_switches_it_off(node: Node) -> None:
    node.api.node["metadata"]["annotations"]["provision.dev/selftest"] = "off"
    assert node.report("fail") == "off"
    assert (node.unhealthy, node.cordoned, node.patches()) == (False, False, 0)


def test_conflict_is_read_anew(node: Node) -> None:
    def once(method: str) -> int | None:
        """Somebody cordons between our reading and our patch."""
        if method == "PATCH":
            node.api.before = lambda method: None
            node.api.cordon("kubectl-cordon")
        return None

    node.api.before = once
    assert node.report("fail") == "reported"
    assert node.owners == "person,self-test"
    assert node.patches() == 2


def test_api_that_fails_for_a_while_is_asked_again(node: Node) -> None:
    answers = [500, 404]
    node.api.before = lambda method: answers.pop(0) if answers else None
    assert node.report("fail") == "reported"
    assert node.cordoned


def test_api_server_that_starts_later_is_waited_for(node: Node, certificates: Certificates) -> None:
    port = int(node.api.url.rpartition(":")[2])
    first = node.api
    first.stop()

    def later() -> None:
        time.sleep(2)
        node.api = Api(certificates, port)

    thread = threading.Thread(target=later)
    thread.start()
    assert node.report("fail") == "reported"
    thread.join()
    assert node.cordoned
    node.api.stop()
    node.api = first


def test_it_gives_up_after_its_limit_and_says_what_kept_it(node: Node) -> None:
    node.machine.settings["REPORT_LIMIT"] = "1"
    node.api.before = lambda method: 403
    assert node.report("fail", rc=1) == "failed"
    assert "HTTP 403" in node.noted()["detail"]
    assert "made to answer 403" in node.noted()["detail"]


def test_foreign_server_certificate_is_not_trusted(node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    other = Certificates(folder)
    node.machine.settings["REPORT_LIMIT"] = "1"
    user = (f"    client-certificate: {other.path('node.pem')}", f"    client-key: {other.path('node.key')}")
    node.kubeconfig(*user, ca=f"certificate-authority: {other.ca}")
    assert node.report("fail", rc=1) == "failed"
    assert node.api.requests == []


@pytest.mark.parametrize("client", ["curl", "python3"])
def test_with_what_the_host_has_for_http(node: Node, client: str) -> None:
    (node.machine.tools / "curl").unlink()
    (node.machine.bin / "python3").unlink()
    node.machine.link(client)
    assert node.report("fail") == "reported"
    assert node.state == (True, True, "self-test")
    node.api.before = lambda method: None
    assert node.report("pass") == "cleared"


def test_host_with_neither_says_so(node: Node) -> None:
    (node.machine.tools / "curl").unlink()
    (node.machine.bin / "python3").unlink()
    assert node.report("fail", rc=1) == "failed"
    assert "curl" in node.noted()["detail"]


@pytest.mark.parametrize("client", ["curl", "python3"])
def test_credentials_inside_the_kubeconfig(node: Node, client: str) -> None:
    (node.machine.tools / "curl").unlink()
    (node.machine.bin / "python3").unlink()
    node.machine.link(client)

    def inside(name: str) -> str:
        return base64.b64encode((node.certificates.folder / name).read_bytes()).decode()

    user = (f"    client-certificate-data: {inside('node.pem')}", f'    client-key-data: "{inside("node.key")}"')
    node.kubeconfig(*user, ca=f"certificate-authority-data: {inside('ca.pem')}")
    assert node.report("fail") == "reported"
    assert list(node.machine.root.glob("tmp.*")) == []


@pytest.mark.parametrize("client", ["curl", "python3"])
def test_token_is_never_an_argument(node: Node, client: str) -> None:
    (node.machine.tools / "curl").unlink()
    (node.machine.bin / "python3").unlink()
    node.machine.link(client)
    # Before the client, note what everybody on the host could read of its command line.
    real = (node.machine.tools / client).readlink()
    node.machine.command(client, f'echo "$0 $*" >>{node.machine.root}/arguments; exec {real} "$@"')
    node.kubeconfig("    token: sesame")
    assert node.report("fail") == "reported"
    assert node.api.tokens == ["Bearer sesame", "Bearer sesame"]
    assert "sesame" not in (node.machine.root / "arguments").read_text()


def test_without_a_cluster_there_is_nothing_to_do(node: Node) -> None:
    (node.machine.root / "kubelet.conf").unlink()
    assert node.report("fail") == "no-cluster"


def test_credentials_of_an_exec_plugin_are_refused_with_reason(node: Node) -> None:
    node.kubeconfig("    exec:", "      command: aws")
    assert node.report("fail", rc=1) == "failed"
    assert "exec plugin" in node.noted()["detail"]


def test_missing_or_broken_result_says_nothing(node: Node) -> None:
    assert node.report() == "unchanged"
    node.machine.write("state/selftest.json", '{"result": "fail", "boot')
    assert node.report() == "unchanged"
    assert node.api.requests == []
