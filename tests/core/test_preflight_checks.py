"""What single checks make of what a cluster shows, where no API server is needed to show it."""

from typing import Any

import pytest
from msgspec import convert

from tessera_core.preflight import control_plane, installation, node_agents, node_runtime
from tessera_core.preflight.checks import CHECKS
from tessera_core.preflight.findings import FindingState, Outcome
from tessera_core.preflight.objects import FullMeta, NodeFacts, WebhookRegistration, WorkloadFacts
from tessera_core.preflight.snapshot import SOURCES, ClockReading, InstallationSnapshot
from tessera_core.registry.registry import load
from tessera_core.registry.vendor_monitoring import monitoring

OK, WARNING, FAILED, UNKNOWN = (
    FindingState.OK,
    FindingState.WARNING,
    FindingState.FAILED,
    FindingState.UNKNOWN,
)
REGISTRY = load()


def snapshot(**fields: Any) -> InstallationSnapshot:
    return InstallationSnapshot(registry=REGISTRY, vendors=monitoring(REGISTRY), **fields)


def states(outcomes: Any) -> list[FindingState]:
    found: list[Outcome] = list(outcomes)
    assert all(bool(one.remedy) is (one.state is not OK) for one in found)
    return [one.state for one in found]


def a_node(runtime: str, **annotations: str) -> NodeFacts:
    return convert(
        {
            "metadata": {
                "name": "n",
                "labels": {"tessera.dev/cards": "nvidia"},
                "annotations": annotations,
            },
            "status": {"nodeInfo": {"containerRuntimeVersion": runtime}},
        },
        NodeFacts,
    )


def an_agent(**env: str) -> WorkloadFacts:
    labels = {
        "app.kubernetes.io/part-of": "tessera", "app.kubernetes.io/name": "tessera-agent",
        "app.kubernetes.io/component": "nvidia",
    }  # fmt: skip
    meta = {"name": "tessera-agent-nvidia", "namespace": "tessera-system", "labels": labels}
    variables = [{"name": name, "value": value} for name, value in env.items()]
    pod = {"spec": {"containers": [{"name": "agent", "env": variables}]}}
    return convert({"metadata": meta, "spec": {"template": pod}}, WorkloadFacts)


def a_component(mode: str, ready: int) -> WorkloadFacts:
    labels = {
        "app.kubernetes.io/part-of": "tessera", "app.kubernetes.io/name": "tessera-containerd",
    }  # fmt: skip
    env = [{"name": "TESSERA_MODE", "value": mode}]
    pod = {"spec": {"containers": [{"name": "containerd", "env": env}]}}
    status = {"desiredNumberScheduled": 2, "numberReady": ready}
    return convert(
        {"metadata": {"labels": labels}, "spec": {"template": pod}, "status": status},
        WorkloadFacts,
    )


@pytest.mark.parametrize(
    ("mode", "ready", "state"),
    [("write", 2, OK), ("write", 1, WARNING), ("remove", 2, WARNING)],
)
def test_a_component_that_is_done_says_that_the_agent_is_required(
    mode: str, ready: int, state: FindingState
) -> None:
    cluster = snapshot(
        nodes=(a_node("containerd://2.2.0"),), daemonsets=(an_agent(), a_component(mode, ready))
    )
    assert states(node_agents.required_plugin(cluster)) == [state]


def test_names_are_unique_and_sources_known() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert {source for check in CHECKS for source in check.reads} <= set(SOURCES)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.name))
def test_every_check_says_something_of_an_empty_cluster(check: Any) -> None:
    assert states(check.run(snapshot()))


@pytest.mark.parametrize(
    ("version", "state"),
    [("v1.29.9", FAILED), ("v1.30.0", OK), ("v1.35.1-eks-1", OK), ("v1.36.0", WARNING),
     ("v2.0.0", WARNING), ("", UNKNOWN), ("devel", UNKNOWN)],
)  # fmt: skip
def test_versions_of_the_api_server(version: str, state: FindingState) -> None:
    assert states(control_plane.kubernetes_version(snapshot(server_version=version))) == [state]


def test_an_api_server_without_policies() -> None:
    assert states(control_plane.policy_api(snapshot(missing=frozenset({"policies"})))) == [FAILED]


@pytest.mark.parametrize(
    ("runtime", "found"),
    [
        ("containerd://2.2.0", [OK]),
        ("containerd://2.1.5", [WARNING]),
        ("containerd://1.7.27", [WARNING, WARNING]),
        ("containerd://1.6.8", [FAILED]),
        ("cri-o://1.34.1", [WARNING]),
        ("docker://28.1.1", [FAILED]),
        ("", [OK]),
    ],
)
def test_container_runtimes(runtime: str, found: list[FindingState]) -> None:
    cluster = snapshot(nodes=(a_node(runtime),))
    assert states(node_runtime.container_runtime(cluster)) == found


@pytest.mark.parametrize(
    ("renewed_s", "written_s", "state"),
    [
        (1000.0, 1000.0, OK),
        (970.0, 1000.0, FAILED),  # behind, by the API server's own time of the write
        (1030.0, 1000.0, FAILED),
        (1008.0, 1000.0, WARNING),
        (700.0, None, OK),  # an old renewal says nothing of a clock
        (1100.0, None, FAILED),
    ],
)
def test_clocks_of_nodes(renewed_s: float, written_s: float | None, state: FindingState) -> None:
    cluster = snapshot(
        clock=ClockReading(server_s=1000, own_s=1000), renewed_s={"agent.nvidia.n": renewed_s},
        written_s={} if written_s is None else {"agent.nvidia.n": written_s},
    )  # fmt: skip
    assert states(control_plane.agents_clocks(cluster)) == [state]


def test_a_clock_that_is_behind_makes_no_agent_silent() -> None:
    published = '{"version":1,"cards":[],"heartbeat_s":45}'
    node = a_node("containerd://2.2.0", **{"cards.tessera.dev/nvidia": published})
    cluster = snapshot(
        nodes=(node,), daemonsets=(an_agent(),), clock=ClockReading(server_s=1000, own_s=1000),
        renewed_s={"agent.nvidia.n": 700.0}, written_s={"agent.nvidia.n": 990.0},
    )  # fmt: skip
    assert states(node_agents.leases(cluster)) == [OK]


def test_an_annotation_that_cannot_be_read() -> None:
    node = a_node("containerd://2.2.0", **{"cards.tessera.dev/nvidia": "{"})
    cluster = snapshot(nodes=(node,), daemonsets=(an_agent(),))
    assert states(node_agents.cards(cluster)) == [FAILED]
    assert states(node_agents.nri(cluster)) == [UNKNOWN]


def test_a_webhook_that_calls_another_service() -> None:
    registered = convert(
        {"metadata": {"name": "tessera"}, "webhooks": [
            {"clientConfig": {"service": {"namespace": "old", "name": "tessera-scheduler"}}}
        ]},
        WebhookRegistration,
    )  # fmt: skip
    cluster = snapshot(mutatingwebhooks=(registered,), validatingwebhooks=(registered,))
    found = list(installation.webhooks(cluster))
    assert [one.state for one in found] == [FAILED, FAILED]
    assert "calls the service old/tessera-scheduler" in found[0].found


def test_webhooks_of_an_installation_that_is_gone() -> None:
    registered = WebhookRegistration(metadata=FullMeta(name="tessera"))
    (found,) = installation.left_behind(snapshot(mutatingwebhooks=(registered,)))
    assert found.state is FAILED
    assert found.remedy == "kubectl delete mutatingwebhookconfiguration/tessera"


def test_nodes_whose_agents_are_device_plugins_need_no_nri() -> None:
    node = a_node("docker://28.1.1")
    for env, found in (({}, FAILED), ({"TESSERA_GIVING": "allocate"}, OK)):
        cluster = snapshot(nodes=(node,), daemonsets=(an_agent(**env),))
        assert states(node_runtime.container_runtime(cluster)) == [found]
