"""Nodes on which an agent runs: its pod, its Lease, what it publishes, and what requires it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from tessera_core.preflight.findings import (
    Outcome,
    failed,
    listed,
    ok,
    or_ok,
    unknown,
    warning,
)
from tessera_core.preflight.node_runtime import NRI_ON, can_require, runtime_of
from tessera_core.preflight.objects import (
    NAME_LABEL,
    VENDOR_LABEL,
    NodeFacts,
    TemplateVariable,
    WorkloadFacts,
)
from tessera_core.preflight.snapshot import AGENT, LEASES, NAMESPACE, InstallationSnapshot
from tessera_schema.node_cards import RUNTIME_DOES_NOT_CALL, NodeCardsAnnotation

REQUIRED: Final = "tessera-agent-required"
"""ConfigMap by which an administrator says that nodes' runtimes require the agent; the chart
writes it, and refuses to be uninstalled while it is there."""
STARTED_WITHOUT: Final = "StartedWithoutAgent"
ALERTS: Final = (STARTED_WITHOUT, "CardsWithoutGrant")
"""Reasons of an agent's Events about containers that were created while it was not called."""
REQUIRE: Final = (
    'in /etc/containerd/config.toml: [plugins."io.containerd.nri.v1.nri".default_validator] enable '
    '= true, required_plugins = ["tessera"], tolerate_missing_plugins_annotation = '
    '"tolerate-missing-plugins.noderesource.dev"; then systemctl restart containerd; or add the '
    "component containerd, which does so node by node"
)
CONFIGURES: Final = "tessera-containerd"
"""The DaemonSet of the component `containerd`: its pods are ready where they are done."""
_WRITES: Final = TemplateVariable("TESSERA_MODE", "write")
_REMOVE_EVENTS: Final = "kubectl delete events -A --field-selector reason={}"
HOOK: Final = "hook"
"""The init container that installs the hook on its node."""


def agents(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """Each node with cards has a ready agent of each of its vendors."""
    problems: list[Outcome] = []
    for node, vendor, published in cluster.published:
        problems.extend(_agent_problem(cluster, node, vendor, _problem(published)))
    yield from or_ok(problems, "an agent is ready on each node with cards")


def _agent_problem(
    cluster: InstallationSnapshot, node: NodeFacts, vendor: str, published: str
) -> Iterator[Outcome]:
    pod = cluster.agent_pods.get((vendor, node.name))
    if pod is None:
        yield failed(
            f"{node.name}: no {vendor} agent runs there",
            f"kubectl -n {NAMESPACE} describe daemonset {AGENT}-{vendor}",
        )
    elif not pod.ready and not published:
        waits = pod.waits
        why = f": {waits.reason}: {waits.message}".rstrip(": ") if waits is not None else ""
        yield failed(
            f"{node.name}: the {vendor} agent is not ready{why}",
            f"kubectl -n {NAMESPACE} logs {pod.metadata.name} --all-containers --tail=20",
        )


def _problem(found: NodeCardsAnnotation | str) -> str:
    """Why the agent cannot give cards, as it publishes."""
    return "" if isinstance(found, str) or found.problem is UNSET else found.problem


def nri(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """The container runtime calls the agent, as the agent publishes on its node."""
    silent, others, read = [], [], 0
    for node, vendor, found in cluster.published:
        if isinstance(found, str):
            continue
        read += 1
        problem = _problem(found)
        if problem.startswith(RUNTIME_DOES_NOT_CALL):
            silent.append((node.name, problem))
        elif problem:
            others.append(
                failed(
                    f"{node.name}: the {vendor} agent cannot give cards: {problem}",
                    f"kubectl -n {NAMESPACE} logs -l {VENDOR_LABEL}={vendor} --tail=50 --prefix",
                )
            )
    if silent:
        names, problem = listed(name for name, _ in silent), silent[0][1]
        others.append(failed(f"{names}: {problem}: NRI is off, or the runtime is down", NRI_ON))
    if others:
        yield from others
    elif read:
        yield ok(f"agents that the container runtime calls: {read}")
    else:
        yield unknown("no agent has published anything yet", _describe())


def _describe() -> str:
    return f"kubectl -n {NAMESPACE} get pods -l {NAME_LABEL}={AGENT} -o wide"


def required_plugin(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """The nodes' runtimes create no container without the agent: where one did, its Event says so;
    else the ConfigMap `tessera-agent-required`, by which an administrator says it."""
    nodes = cluster.nri_nodes
    able = [n for n in nodes if (r := runtime_of(n)) is not None and can_require(*r)]
    names = {node.name for node in nodes}
    alerts = [e for e in cluster.events if e.reason in ALERTS and e.source.host in names]
    if alerts:
        pods = {f"{e.involved_object.namespace}/{e.involved_object.name}" for e in alerts}
        removals = " && ".join(map(_REMOVE_EVENTS.format, sorted({e.reason for e in alerts})))
        yield failed(
            f"{listed({e.source.host for e in alerts})}: containers were created while the agent "
            f"was not called, so the runtime does not require it: {listed(pods)}",
            f"{REQUIRE}; then delete these pods, and what was said of them: {removals}",
        )
    elif not able:
        yield ok("no container runtime can require the agent")
    elif any(c.metadata.name == REQUIRED for c in cluster.configmaps):
        yield ok(f"the ConfigMap {REQUIRED} says that runtimes require the agent")
    elif any(map(_configures, cluster.daemonsets)):
        yield ok("the component containerd has configured the runtime of each of its nodes")
    else:
        yield warning(
            f"nobody has said that the runtimes of {listed(n.name for n in able)} require the "
            "agent: a container that starts while it is down has no limits",
            f"{REQUIRE}; on all nodes done: kubectl -n {NAMESPACE} create configmap {REQUIRED}",
        )


def _configures(daemonset: WorkloadFacts) -> bool:
    """Whether it is the component `containerd`, and has done its work on all its nodes."""
    writes = any(v == _WRITES for c in daemonset.all_containers for v in c.env)
    status = daemonset.status
    done = 0 < status.desired_number_scheduled == status.number_ready
    return daemonset.part == CONFIGURES and writes and done


def leases(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """Each agent that announces a Lease renews it."""
    if cluster.clock is None:
        yield unknown("the API server's answer has no date", f"kubectl -n {LEASES} get leases")
        return
    late = []
    for node, vendor, found in cluster.published:
        if isinstance(found, str) or found.heartbeat_s is UNSET or _problem(found):
            continue  # an agent that publishes why it cannot give cards renews none
        lease = f"agent.{vendor}.{node.name}"
        renewed_s = cluster.written_s.get(lease, cluster.renewed_s.get(lease))
        if renewed_s is None:
            late.append((node.name, f"{node.name}: the Lease {LEASES}/{lease} is not there"))
        elif cluster.clock.server_s - renewed_s > found.heartbeat_s:
            age_s = cluster.clock.server_s - renewed_s
            late.append(
                (node.name, f"{node.name}: the {vendor} agent has been silent for {age_s:.0f} s")
            )
    yield from or_ok(
        (
            failed(
                f"{text}: no pod is placed on its cards",
                f"kubectl -n {NAMESPACE} delete pod -l {NAME_LABEL}={AGENT} "
                f"--field-selector spec.nodeName={name}",
            )
            for name, text in late
        ),
        "all agents renew their Leases",
    )


def cards(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """Each agent publishes cards, and some of each node's take pods."""
    problems = []
    count = 0
    for node, vendor, found in cluster.published:
        if isinstance(found, str):
            text = f"the annotation cannot be read: {found}" if found else "nothing is published"
            problems.append(
                failed(
                    f"{node.name}: cards of {vendor}: {text}",
                    f"kubectl -n {NAMESPACE} logs -l {VENDOR_LABEL}={vendor} --tail=50 --prefix",
                )
            )
            continue
        count += len(found.cards)
        if found.cards and all(card.cordoned for card in found.cards):
            problems.append(
                failed(
                    f"{node.name}: all {vendor} cards are cordoned: another plugin hands them out",
                    f"kubectl describe node {node.name}  # its event Cards names the plugin",
                )
            )
        if unhealthy := [str(card.index) for card in found.cards if not card.healthy]:
            problems.append(
                warning(
                    f"{node.name}: unhealthy {vendor} cards: {listed(unhealthy)}",
                    f"kubectl describe node {node.name}  # its event Cards says why",
                )
            )
    yield from or_ok(problems, f"cards that are published: {count}")


def hook(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """The hook is installed on each node by the init container of its agent."""
    problems = []
    for pod in cluster.pods:
        for container in pod.status.init_container_statuses:
            waiting = container.state.waiting
            if (
                container.name == HOOK
                and waiting is not None
                and waiting.reason != "PodInitializing"
            ):
                problems.append(
                    failed(
                        f"{pod.spec.node_name}: the hook is not installed: {waiting.reason}: "
                        f"{waiting.message}".rstrip(": "),
                        f"kubectl -n {NAMESPACE} logs {pod.metadata.name} -c {HOOK}",
                    )
                )
    yield from or_ok(problems, "the hook is installed on all nodes with an agent")


def extended_resources(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """The node's status has the extended resources that its agent advertises."""
    problems = []
    for node, vendor, found in cluster.published:
        if isinstance(found, str) or found.advertises is UNSET:
            continue
        lost = [name for name in found.advertises if name not in node.status.allocatable]
        if lost:
            problems.append(
                failed(
                    f"{node.name}: the {vendor} agent advertises {listed(lost)}, and the node's "
                    "status lacks it",
                    f"kubectl -n {NAMESPACE} rollout restart daemonset/{AGENT}-{vendor}",
                )
            )
    yield from or_ok(problems, "nodes have the extended resources that agents advertise")
