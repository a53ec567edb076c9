"""What a pod of Tessera may do on its machine is what it needs, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.manifests import OVERLAYS, combined, containers, named, overlay, workloads

ROOT_FOR = "DaemonSet"
HOST_PATHS = {
    "/var/run/nri", "/var/lib/tessera", "/usr/local/tessera",
    "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins", "/usr/local/vgpu/containers",
}  # fmt: skip
SIMULATED_PATHS = {"simulated": {"/run/tessera-simulated", "/var/run/cdi"}}
"""What the overlay with simulated cards needs more: the machine, and devices for the runtime."""
READ_ONLY = {
    "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins", "/usr/local/vgpu/containers",
}  # fmt: skip


@pytest.mark.parametrize("name", OVERLAYS)
def test_containers_have_no_privileges(name: str) -> None:
    for container in containers(overlay(name)):
        security = container.spec["securityContext"]
        assert security["allowPrivilegeEscalation"] is False, container.name
        assert security["readOnlyRootFilesystem"] is True, container.name
        assert security["capabilities"] == {"drop": ["ALL"]}, container.name
        assert not security.get("privileged"), container.name


def test_agents_that_end_containers_may_signal_them_and_nothing_else(tmp_path: Path) -> None:
    for container in containers(combined(tmp_path, ["memory-reclaim"])):
        capabilities = container.spec["securityContext"]["capabilities"]
        ends = {"name": "TESSERA_RECLAIM_ENABLED", "value": "true"} in container.spec.get("env", ())
        assert capabilities == ({"drop": ["ALL"], "add": ["KILL"]} if ends else {"drop": ["ALL"]})


@pytest.mark.parametrize("name", OVERLAYS)
def test_only_agents_are_root_or_on_the_host(name: str) -> None:
    for item in workloads(overlay(name)):
        pod = item["spec"]["template"]["spec"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        if item["kind"] == ROOT_FOR:
            continue
        assert pod["securityContext"]["runAsNonRoot"] is True, item["metadata"]["name"]
        assert pod["securityContext"]["runAsUser"] > 0
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert not [v for v in pod.get("volumes", ()) if "hostPath" in v]


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_agent_sees_only_some_folders_of_its_node(name: str) -> None:
    for container in containers(named(overlay(name), "DaemonSet")):
        volumes = {
            v["name"]: v["hostPath"]["path"]
            for v in container.pod["volumes"]
            if "hostPath" in v
        }  # fmt: skip
        assert set(volumes.values()) <= HOST_PATHS | SIMULATED_PATHS.get(name, set())
        for mount in container.spec["volumeMounts"]:
            if volumes.get(mount["name"]) in READ_ONLY:
                assert mount.get("readOnly"), container.name
        assert "hostIPC" not in container.pod


@pytest.mark.parametrize("name", OVERLAYS)
def test_containers_say_what_they_need_and_how_they_are(name: str) -> None:
    for container in containers(overlay(name)):
        resources = container.spec["resources"]
        assert {"cpu", "memory"} <= resources["requests"].keys(), container.name
        assert "memory" in resources["limits"], container.name
        ends = container.workload["kind"] == "Job" or (
            container.spec in container.pod.get("initContainers", ())
            and container.spec.get("restartPolicy") != "Always"
        )
        assert ends or {"startupProbe", "livenessProbe"} <= container.spec.keys(), container.name


@pytest.mark.parametrize("name", OVERLAYS)
def test_our_pods_start_where_the_agent_is_required_and_away(name: str) -> None:
    for item in workloads(overlay(name)):
        notes = item["spec"]["template"]["metadata"]["annotations"]
        assert notes["tolerate-missing-plugins.noderesource.dev"] == "true"


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_agent_gives_way_to_the_next_and_is_on_the_hosts_network(name: str) -> None:
    for item in named(overlay(name), "DaemonSet"):
        assert item["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0
        pod = item["spec"]["template"]["spec"]
        assert pod["hostNetwork"] is True
        assert pod["dnsPolicy"] == "ClusterFirstWithHostNet"
        assert {"operator": "Exists"} in pod["tolerations"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_passwords_reach_only_their_owners(name: str) -> None:
    for item in workloads(overlay(name)):
        for volume in item["spec"]["template"]["spec"].get("volumes", ()):
            secret = volume.get("secret", {})
            if secret.get("secretName", "").startswith("tessera-bus"):
                (only,) = secret["items"]
                assert only["key"] == item["metadata"]["name"].split("-")[1]
