"""What the manifests install: services, policies, webhooks, Secrets, and that only once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tessera_core.preflight.findings import Outcome, failed, listed, ok, or_ok, spaced, warning
from tessera_core.preflight.objects import WorkloadFacts
from tessera_core.preflight.scheduler import APPLY
from tessera_core.preflight.snapshot import NAMESPACE, InstallationSnapshot
from tessera_schema.annotation_keys import SCHEDULER, SIGNING_KEYS

POLICIES: Final = (
    "tessera-asks", "tessera-bindings", "tessera-foreign-keys", "tessera-leases", "tessera-nodes",
    "tessera-pods", "tessera-resizes", "tessera-results", "tessera-terms",
)  # fmt: skip
"""The base has all of them, each bound by a binding of its name."""
WARN_ONLY: Final = frozenset({"tessera-foreign-keys"})
"""Refuses nothing but with the component `strict-keys`."""
BUS: Final = "tessera-bus"
MADE_BY_SCHEDULER: Final = ("tessera-grant-signing", "tessera-webhook-certificate")
REGISTRATION: Final = "tessera"
PASSWORDS: Final = (
    "deploy/kustomize/passwords.sh | kubectl create -f - && "
    f"kubectl -n {NAMESPACE} rollout restart deployment,statefulset,daemonset"
)
_RESTART: Final = f"kubectl -n {NAMESPACE} rollout restart deployment/{SCHEDULER}"


def services(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """Every Deployment and StatefulSet has all its replicas ready."""
    if cluster.scheduler is None:
        yield failed(f"there is no Deployment {NAMESPACE}/{SCHEDULER}: no pod gets cards", APPLY)
        return
    wanted = {
        one.name: (one, 1 if one.spec.replicas is None else one.spec.replicas)
        for one in cluster.own
        if one not in cluster.agents
    }
    yield from or_ok(
        (
            _down(cluster, one, replicas)
            for one, replicas in wanted.values()
            if one.status.ready_replicas < replicas
        ),
        "all replicas of all services are ready",
    )


def _down(cluster: InstallationSnapshot, one: WorkloadFacts, wanted: int) -> Outcome:
    pods = [p for p in cluster.pods if p.metadata.name.startswith(f"{one.metadata.name}-")]
    waits = next((p.waits for p in pods if p.waits is not None), None)
    why = f": {waits.reason}: {waits.message}".rstrip(": ") if waits is not None else ""
    ready = one.status.ready_replicas
    return failed(
        f"{one.name}: {ready} of {wanted} replicas are ready{why}",
        f"kubectl -n {NAMESPACE} describe pods -l app.kubernetes.io/name={one.part}",
    )


def only_once(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """Each part of Tessera is installed once, in its namespace."""
    of_part = defaultdict(list)
    for one in cluster.workloads:
        if one.part:
            of_part[one.part, one.vendor].append(one)
    problems: list[Outcome] = []
    for (part, _), found in sorted(of_part.items()):
        names = listed(w.name for w in found)
        problems.extend(
            failed(
                f"{part} is installed more than once: {names}; two installations give the same "
                "cards twice",
                _removal(cluster, other),
            )
            for other in _others(found)
        )
    yield from or_ok(problems, f"everything is installed once, in {NAMESPACE}")


def _others(found: Iterable[WorkloadFacts]) -> Iterator[WorkloadFacts]:
    """Those that do not belong to the installation: of another namespace, or with another name."""
    here = [w for w in found if w.metadata.namespace == NAMESPACE]
    yield from (w for w in found if w.metadata.namespace != NAMESPACE)
    yield from sorted(here, key=lambda w: len(w.metadata.name))[1:]


def _removal(cluster: InstallationSnapshot, one: WorkloadFacts) -> str:
    kind = next(
        kind
        for kind, of_kind in (
            ("deployment", cluster.deployments), ("statefulset", cluster.statefulsets),
            ("daemonset", cluster.daemonsets),
        )
        if one in of_kind
    )  # fmt: skip
    return f"kubectl -n {one.metadata.namespace} delete {kind} {one.metadata.name}"


def policies(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """All ValidatingAdmissionPolicies of the base are there, and bound so that they refuse."""
    there = {policy.metadata.name for policy in cluster.policies}
    problems = []
    if missing := set(POLICIES) - there:
        problems.append(failed(f"there is no policy {listed(missing)}: {_OPEN}", APPLY))
    actions: Mapping[str, set[str]] = {
        name: {a for b in cluster.policybindings if b.spec.policy_name == name
               for a in b.spec.validation_actions}
        for name in POLICIES
    }  # fmt: skip
    if unbound := {name for name in POLICIES if name in there and not actions[name]}:
        problems.append(failed(f"nothing binds the policy {listed(unbound)}: {_OPEN}", APPLY))
    lenient = {
        name for name in POLICIES if actions[name] and "Deny" not in actions[name]
    } - WARN_ONLY  # fmt: skip
    if lenient:
        problems.append(failed(f"the binding of {listed(lenient)} does not deny: {_OPEN}", APPLY))
    yield from or_ok(problems, f"all {len(POLICIES)} policies are there and bound")


_OPEN: Final = "tenants may write what only Tessera should"


def webhooks(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """The scheduler has registered its webhooks, and they call its Service."""
    problems = []
    for kind, found in (
        ("mutating", cluster.mutatingwebhooks), ("validating", cluster.validatingwebhooks),
    ):  # fmt: skip
        own = next((one for one in found if one.metadata.name == REGISTRATION), None)
        if own is None or not own.webhooks:
            problems.append(
                failed(
                    f"there is no {kind}webhookconfiguration {REGISTRATION}: pods are not admitted "
                    "by Tessera, and the scheduler writes it when it starts",
                    _RESTART,
                )
            )
            continue
        called = {w.client_config.service for w in own.webhooks}
        reached = {(s.namespace, s.name) for s in called if s is not None}
        if strangers := reached - {(NAMESPACE, SCHEDULER)}:
            problems.append(
                failed(
                    f"{kind}webhookconfiguration {REGISTRATION} calls the service "
                    f"{listed('/'.join(s) for s in strangers)}",
                    _RESTART,
                )
            )
    yield from or_ok(problems, "both webhooks are registered")


def secrets(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """Every Secret that a workload mounts or reads is there, with its keys."""
    needed = needed_secrets(cluster)
    problems = []
    for name, keys in sorted(needed.items()):
        there = cluster.secrets.get(name)
        remedy = PASSWORDS if name == BUS else f"create it in {NAMESPACE}: {APPLY}"
        if there is None:
            problems.append(failed(f"there is no Secret {NAMESPACE}/{name}", remedy))
        elif lost := keys - there:
            replace = remedy.replace("kubectl create", "kubectl replace")
            problems.append(
                failed(f"the Secret {NAMESPACE}/{name} has no key {listed(lost)}", replace)
            )
    if not cluster.installed:
        yield from _before(cluster)
        return
    gone = [name for name in MADE_BY_SCHEDULER if name not in cluster.secrets]
    if gone and cluster.scheduler is not None:
        problems.append(
            failed(
                f"there is no Secret {listed(gone)}, which the scheduler makes when it starts: "
                "agents accept no new grant",
                _RESTART,
            )
        )
    yield from or_ok(problems, "all Secrets are there, with their keys")


def _before(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    if BUS in cluster.secrets:
        yield ok(f"the Secret {NAMESPACE}/{BUS} is there")
    else:
        yield ok(
            f"there is no Secret {NAMESPACE}/{BUS} yet: the component `passwords` and the chart "
            "create it"
        )


def needed_secrets(cluster: InstallationSnapshot) -> dict[str, frozenset[str]]:
    """Secret -> keys that workloads of Tessera cannot start without."""
    needed: dict[str, frozenset[str]] = {}
    for one in cluster.own:
        for volume in one.spec.template.spec.volumes:
            if volume.secret is not None and not volume.secret.optional:
                keys = frozenset(item.key for item in volume.secret.items)
                name = volume.secret.secret_name
                needed[name] = needed.get(name, frozenset()) | keys
        for container in one.all_containers:
            for variable in container.env:
                key = variable.value_from.secret_key_ref if variable.value_from else None
                if key is not None and not key.optional:
                    needed[key.name] = needed.get(key.name, frozenset()) | {key.key}
    return needed


def grant_keys(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """The public keys are published by which agents verify grants."""
    found = next((c for c in cluster.configmaps if c.metadata.name == SIGNING_KEYS), None)
    if found is None or not found.data:
        yield failed(
            f"the ConfigMap {NAMESPACE}/{SIGNING_KEYS} has no key: agents refuse every container "
            "with a share",
            _RESTART,
        )
    else:
        yield ok(f"public keys of grants that are published: {len(found.data)}")


def other_webhooks(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """No webhook of another system changes the pods that Tessera places."""
    systems = cluster.competing_systems
    problems = []
    for registered in cluster.mutatingwebhooks:
        names = {w.name for w in registered.webhooks}
        owner = next((s for s in systems if names & set(s.webhooks)), None)
        if owner is not None:
            problems.append(
                warning(
                    f"mutatingwebhookconfiguration {registered.metadata.name} of {owner.name} "
                    "gives pods that ask for cards to its own scheduler",
                    f"kubectl delete mutatingwebhookconfiguration {registered.metadata.name}  "
                    "# while both run: docs/migrate.md",
                )
            )
    yield from or_ok(problems, "no other system's webhook takes pods")


def left_behind(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """No webhook of Tessera's is registered where no scheduler is left to answer it."""
    kinds = [
        f"{kind}webhookconfiguration/{REGISTRATION}"
        for kind, found in (
            ("mutating", cluster.mutatingwebhooks), ("validating", cluster.validatingwebhooks),
        )
        if any(one.metadata.name == REGISTRATION for one in found)
    ]  # fmt: skip
    if cluster.scheduler is None and kinds:
        yield failed(
            f"{listed(kinds)}: registered, and no scheduler answers: pods that ask for cards are "
            "refused",
            f"kubectl delete {spaced(kinds)}",
        )
    else:
        yield ok("no webhook is left of a former installation")
