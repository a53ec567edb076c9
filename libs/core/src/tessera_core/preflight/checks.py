"""All checks in the order in which they are printed, and how they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from tessera_core.preflight import (
    control_plane,
    installation,
    node_agents,
    node_runtime,
    scheduler,
)
from tessera_core.preflight.findings import Finding, FindingState, PreflightCheck
from tessera_core.preflight.snapshot import InstallationSnapshot

_CLUSTER: Final = "cluster"
_SCHEDULER: Final = "scheduler"
_INSTALLATION: Final = "installation"
_NODES: Final = "nodes"
_WORKLOADS: Final = ("deployments", "daemonsets", "statefulsets")
_OF_NODES: Final = ("nodes", "daemonsets")

CHECKS: Final = (
    PreflightCheck(
        group=_CLUSTER, name="kubernetes", reads=("version",), before=True,
        about="the API server's version with those that Tessera is for",
        run=control_plane.kubernetes_version,
    ),
    PreflightCheck(
        group=_CLUSTER, name="policy-api", reads=("policies",), before=True,
        about="whether the API server serves ValidatingAdmissionPolicies",
        run=control_plane.policy_api,
    ),
    PreflightCheck(
        group=_CLUSTER, name="clock", reads=("clock",), before=True,
        about="this machine's clock with the `Date` of the API server's answer",
        run=control_plane.own_clock,
    ),
    PreflightCheck(
        group=_SCHEDULER, name="kube-scheduler", reads=("version", "deployments"),
        about="the version of the image of kube-scheduler with the API server's",
        run=scheduler.scheduler_version,
    ),
    PreflightCheck(
        group=_SCHEDULER, name="configuration", reads=("deployments", "configmaps"),
        about="kube-scheduler's configuration: all nodes are scored, profiles are served, and the "
        "extender manages every resource name of the dialects that are on",
        run=scheduler.scheduler_configuration,
    ),
    PreflightCheck(
        group=_SCHEDULER, name="webhooks", reads=("mutatingwebhooks", "validatingwebhooks"),
        about="whether the scheduler's webhooks are registered and call its Service",
        run=installation.webhooks,
    ),
    PreflightCheck(
        group=_SCHEDULER, name="other-webhooks", reads=("mutatingwebhooks",), before=True,
        about="registered webhooks with those of systems that give pods to their own scheduler",
        run=installation.other_webhooks,
    ),
    PreflightCheck(
        group=_INSTALLATION, name="services", reads=(*_WORKLOADS, "pods"),
        about="ready replicas of each Deployment and StatefulSet",
        run=installation.services,
    ),
    PreflightCheck(
        group=_INSTALLATION, name="only-once", reads=_WORKLOADS,
        about="workloads of all namespaces that are parts of Tessera",
        run=installation.only_once,
    ),
    PreflightCheck(
        group=_INSTALLATION, name="left-behind", before=True,
        reads=("deployments", "mutatingwebhooks", "validatingwebhooks"),
        about="Tessera's webhooks with a scheduler that answers them",
        run=installation.left_behind,
    ),
    PreflightCheck(
        group=_INSTALLATION, name="policies", reads=("policies", "policybindings"),
        about="the policies that the base installs, and whether their bindings deny",
        run=installation.policies,
    ),
    PreflightCheck(
        group=_INSTALLATION, name="secrets", reads=(*_WORKLOADS, "secrets"), before=True,
        about="Secrets and keys that workloads need, and those that the scheduler makes",
        run=installation.secrets,
    ),
    PreflightCheck(
        group=_INSTALLATION, name="grant-keys", reads=("configmaps",),
        about="whether public keys of grants are published",
        run=installation.grant_keys,
    ),
    PreflightCheck(
        group=_NODES, name="labels", reads=_OF_NODES, before=True, of_node=True,
        about="nodes that show cards with the labels by which agents run",
        run=node_runtime.labels,
    ),
    PreflightCheck(
        group=_NODES, name="container-runtime", reads=_OF_NODES, before=True, of_node=True,
        about="the runtime's version, as kubelet reports it, with those that have NRI",
        run=node_runtime.container_runtime,
    ),
    PreflightCheck(
        group=_NODES, name="runtime-class", reads=(*_OF_NODES, "runtimeclasses"), of_node=True,
        about="RuntimeClasses that agents name, and handlers that kubelet reports "
        "(`status.runtimeHandlers`)",
        run=node_runtime.runtime_classes,
    ),
    PreflightCheck(
        group=_NODES, name="other-plugins", reads=_OF_NODES, before=True, of_node=True,
        about="images of DaemonSets with those of other device plugins and DRA drivers, on nodes "
        "that agents run on",
        run=node_runtime.competing_plugins,
    ),
    PreflightCheck(
        group=_NODES, name="agents", reads=(*_OF_NODES, "pods"), of_node=True,
        about="whether an agent of each vendor is ready on each node with cards",
        run=node_agents.agents,
    ),
    PreflightCheck(
        group=_NODES, name="nri", reads=_OF_NODES, of_node=True,
        about="why an agent cannot give cards, as it publishes in `cards.tessera.dev/<vendor>`",
        run=node_agents.nri,
    ),
    PreflightCheck(
        group=_NODES, name="required-plugin", reads=(*_OF_NODES, "configmaps", "events"),
        of_node=True,
        about="Events of containers that were created without the agent, and the ConfigMap "
        "`tessera-agent-required`, or the component `containerd`",
        run=node_agents.required_plugin,
    ),
    PreflightCheck(
        group=_NODES, name="hook", reads=("pods",), of_node=True,
        about="the init container of agents that installs the hook",
        run=node_agents.hook,
    ),
    PreflightCheck(
        group=_NODES, name="leases", reads=(*_OF_NODES, "leases", "clock"), of_node=True,
        about="agents' Leases with the API server's clock",
        run=node_agents.leases,
    ),
    PreflightCheck(
        group=_NODES, name="node-clocks", reads=("leases",), of_node=True,
        about="the time that an agent writes into its Lease with the API server's of that write",
        run=control_plane.agents_clocks,
    ),
    PreflightCheck(
        group=_NODES, name="cards", reads=_OF_NODES, of_node=True,
        about="published cards, and their health",
        run=node_agents.cards,
    ),
    PreflightCheck(
        group=_NODES, name="resources", reads=_OF_NODES, of_node=True,
        about="extended resources that an agent advertises with the node's status",
        run=node_agents.extended_resources,
    ),
)  # fmt: skip


def run_checks(cluster: InstallationSnapshot, *, of_node: bool = False) -> Iterator[Finding]:
    """The findings of all checks that make sense: before an installation some do not, and for one
    node (`of_node`) those alone that are about nodes."""
    for check in CHECKS:
        if (check.of_node or not of_node) and (check.before or cluster.installed):
            yield from _findings(check, cluster)


def _findings(check: PreflightCheck, cluster: InstallationSnapshot) -> Iterator[Finding]:
    blank = Finding(group=check.group, name=check.name, state=FindingState.OK, found="")
    unread = next((source for source in check.reads if source in cluster.unread), None)
    if unread is not None:
        yield replace(
            blank, state=FindingState.UNKNOWN, found=cluster.unread[unread],
            remedy="run it with the rights of a cluster administrator (--context, --as)",
        )  # fmt: skip
        return
    for outcome in check.run(cluster):
        yield replace(blank, state=outcome.state, found=outcome.found, remedy=outcome.remedy)
