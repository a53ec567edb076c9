"""Nodes before an agent runs there: labels, container runtime, runtime classes, other plugins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tessera_core.dialect_kit.monitoring import CompetingSystem
from tessera_core.node.containerd_drop_in import REQUIRES_SINCE
from tessera_core.preflight.findings import Outcome, failed, listed, on_node, or_ok, spaced, warning
from tessera_core.preflight.objects import NodeFacts, WorkloadFacts
from tessera_core.preflight.snapshot import InstallationSnapshot
from tessera_schema.annotation_keys import CARDS_LABEL

CONTAINERD: Final = "containerd"
NRI_SINCE: Final = {CONTAINERD: (1, 7), "cri-o": (1, 26)}
"""The first versions that can call NRI plugins."""
NRI_SWITCHED_ON: Final = (2, 0)
"""From this version on containerd calls them unless its configuration says otherwise."""
_RUNTIME: Final = re.compile(r"([a-z-]+)://v?(\d+)\.(\d+)")
_NO_SETUP: Final = "configure the handler in /etc/containerd/config.toml and restart containerd"
NRI_ON: Final = (
    'in /etc/containerd/config.toml: [plugins."io.containerd.nri.v1.nri"] disable = false; then '
    "systemctl restart containerd; the component containerd does both (docs/install.md, Failing "
    "closed)"
)


def runtime_of(node: NodeFacts) -> tuple[str, tuple[int, int]] | None:
    """`containerd`, (2, 2); None where kubelet does not say."""
    found = _RUNTIME.match(node.status.node_info.container_runtime_version)
    return (found[1], (int(found[2]), int(found[3]))) if found else None


def labels(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """Nodes with cards have a label by which an agent runs there."""
    chosen = {node.name for node in cluster.card_nodes}
    problems = []
    for vendor, spec in cluster.vendors.items():
        bare = [
            node.name
            for node in cluster.nodes
            if node.name not in chosen and _shows_hardware(node, spec.hardware_signs)
        ]
        if bare:
            problems.append(
                warning(
                    f"{listed(bare)}: the node has {vendor} cards and no label by which Tessera's "
                    "agent runs there",
                    f"kubectl label nodes {spaced(bare)} {CARDS_LABEL}={vendor}",
                )
            )
    if not chosen and not problems:
        vendors = "|".join(cluster.vendors)
        problems.append(
            failed(
                "no node has a label by which an agent runs there",
                f"kubectl label nodes <node> {CARDS_LABEL}=<{vendors}>",
            )
        )
    elif not chosen:
        problems = [failed(p.found, p.remedy) for p in problems]
    yield from or_ok(problems, f"agents run on {listed(chosen)}")


def _shows_hardware(node: NodeFacts, signs: tuple[str, ...]) -> bool:
    known = (*node.metadata.labels, *node.metadata.annotations)
    amounts = {name for name, amount in node.status.capacity.items() if str(amount) != "0"}
    return any(sign in known or sign in amounts for sign in signs)


def container_runtime(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """The nodes' container runtimes can call Tessera's agent by NRI."""
    yield from or_ok(
        (
            outcome(f"{_runtimes(nodes)}: {text}", remedy)
            for holds, outcome, text, remedy in _RUNTIME_PROBLEMS
            if (nodes := [n for n in cluster.nri_nodes if (r := runtime_of(n)) and holds(*r)])
        ),
        "the container runtimes that have to call an agent have NRI",
    )


def can_require(name: str, version: tuple[int, int]) -> bool:
    """Whether this runtime can be configured to require a plugin."""
    return name == CONTAINERD and version >= REQUIRES_SINCE


def _has_nri(name: str, version: tuple[int, int]) -> bool:
    return name in NRI_SINCE and version >= NRI_SINCE[name]


_RUNTIME_PROBLEMS: Final = (
    (
        lambda name, version: not _has_nri(name, version),
        failed,
        "this container runtime has no NRI",
        "upgrade it to containerd 2.2 or newer, or add the component device-plugin",
    ),
    (
        lambda name, version: name == CONTAINERD and NRI_SINCE[name] <= version < NRI_SWITCHED_ON,
        warning,
        "NRI is off there unless it was switched on",
        NRI_ON,
    ),
    (
        lambda name, version: _has_nri(name, version) and not can_require(name, version),
        warning,
        "this container runtime cannot require the agent: containers that start while it is down "
        "have no limits",
        "upgrade it to containerd 2.2 or newer",
    ),
)
"""Of which runtimes (name, version) it holds, and what follows."""


def _runtimes(nodes: list[NodeFacts]) -> str:
    versions = {node.status.node_info.container_runtime_version for node in nodes}
    return f"{listed(node.name for node in nodes)} ({listed(versions)})"


def runtime_classes(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """The RuntimeClass that agents name is there, and their nodes' runtimes know its handler."""
    handlers = {c.metadata.name: c.handler for c in cluster.runtimeclasses}
    problems = []
    for agent in cluster.agents:
        name = agent.spec.template.spec.runtime_class_name
        if not name:
            continue
        if name not in handlers:
            problems.append(
                failed(
                    f"{agent.name} names the RuntimeClass {name}, which is not there: its pods "
                    "cannot be created",
                    _made_class(name),
                )
            )
            continue
        lacking = [
            node.name
            for node in cluster.card_nodes
            if agent in cluster.agents_on[node.name] and not _knows(node, handlers[name])
        ]
        if lacking:
            problems.append(
                failed(
                    f"{listed(lacking)}: the container runtime has no handler {handlers[name]}, "
                    f"which the RuntimeClass {name} names",
                    _handler_setup(cluster, agent.vendor, min(lacking)),
                )
            )
    yield from or_ok(problems, "the RuntimeClasses that agents name are there")


def _handler_setup(cluster: InstallationSnapshot, vendor: str, node: str) -> str:
    spec = cluster.vendors.get(vendor)
    setup = spec.handler_setup if spec is not None else ""
    return f"{on_node(node, setup)}; then restart containerd" if setup else _NO_SETUP


def _made_class(name: str) -> str:
    return (
        "printf 'apiVersion: node.k8s.io/v1\\nkind: RuntimeClass\\n"
        f"metadata: {{name: {name}}}\\n"
        f"handler: {name}\\n' | kubectl create -f -"
    )


def _knows(node: NodeFacts, handler: str) -> bool:
    """True where kubelet does not list handlers."""
    known = {one.name for one in node.status.runtime_handlers}
    return not known or handler in known


def competing_plugins(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """No other device plugin or DRA driver hands out cards on the nodes of Tessera's agents."""
    problems = []
    for daemonset in cluster.daemonsets:
        system = system_of(cluster, daemonset)
        if system is None or daemonset.part:
            continue
        nodes = [node.name for node in filter(daemonset.selector, cluster.card_nodes)]
        if nodes:
            namespace, name = daemonset.metadata.namespace, daemonset.metadata.name
            remedy = system.remedy.format(namespace=namespace, name=name, nodes=spaced(nodes))
            problems.append(
                failed(
                    f"{daemonset.name} ({system.name}) runs on {listed(nodes)}: the cards are "
                    "left to it, and no pod gets a share",
                    remedy,
                )
            )
    yield from or_ok(problems, "no other plugin hands out cards on nodes with an agent")


def system_of(cluster: InstallationSnapshot, daemonset: WorkloadFacts) -> CompetingSystem | None:
    """The other system whose plugin this DaemonSet runs."""
    images = [container.image for container in daemonset.all_containers]
    owners = {owner.kind for owner in daemonset.metadata.owner_references}
    for system in cluster.competing_systems:
        if system.owner and system.owner not in owners:
            continue
        if any(part in image for part in system.images for image in images):
            return system
    return None
