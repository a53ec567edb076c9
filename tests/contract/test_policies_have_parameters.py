"""ValidatingAdmissionPolicies with an object as parameter: a Binding is held against it."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from tests.contract.client import Answer, Json
from tests.contract.cluster import Cluster, OpenCluster
from tests.contract.objects import a_binding

GROUP = "/apis/admissionregistration.k8s.io/v1"
LEASES = "apis/coordination.k8s.io/v1"
TERM = "a.dev/term"
SAYS = f'has(object.metadata.annotations) && "{TERM}" in object.metadata.annotations'
IS = f'object.metadata.annotations["{TERM}"] == string(params.spec.leaseTransitions)'
SETTLED_S = 60.0


async def a_lease(cluster: Cluster, term: int) -> None:
    spec = {"leaseTransitions": term}
    lease = {"metadata": {"name": "lease"}, "spec": spec}
    (await cluster.admin.post(cluster.path("leases", LEASES), lease)).done  # noqa: B018  (checks)


async def guarded(
    cluster: Cluster, *, absent: str, condition: str = SAYS, validation: str = IS
) -> None:
    """Bindings in the test's own namespace that name a term: it is the Lease's."""
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods/binding"],
    }  # fmt: skip
    here = {"matchLabels": {"kubernetes.io/metadata.name": cluster.own}}
    policy = {
        "metadata": {"name": cluster.own},
        "spec": {
            "paramKind": {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
            "matchConditions": [{"name": "it-says", "expression": condition}],
            "validations": [{
                "expression": validation,
                "message": "a term that is over", "reason": "Forbidden",
            }],
        },
    }  # fmt: skip
    bound = {
        "metadata": {"name": cluster.own},
        "spec": {
            "policyName": cluster.own, "validationActions": ["Deny"],
            "paramRef": {
                "name": "lease", "namespace": cluster.own, "parameterNotFoundAction": absent,
            },
        },
    }  # fmt: skip
    await cluster.make(f"{GROUP}/validatingadmissionpolicies", policy)
    await cluster.make(f"{GROUP}/validatingadmissionpolicybindings", bound)


async def tried(cluster: Cluster, pod: str, **notes: str) -> Answer:
    """A Binding that is asked for and not kept."""
    binding = a_binding(pod, "anywhere", annotations=notes)
    return await cluster.admin.post(f"{cluster.pods}/{pod}/binding", binding, dryRun="All")


async def until_refused(cluster: Cluster, pod: str, term: str) -> Answer:
    """Policies and parameters arrive by watches."""
    async with asyncio.timeout(SETTLED_S):
        while (answer := await tried(cluster, pod, **{TERM: term})).status in (201, 404):
            await asyncio.sleep(0.1)
    return answer


def denied(cluster: Cluster, pod: str, why: str) -> str:
    """What the policy says."""
    policy = f"ValidatingAdmissionPolicy '{cluster.own}' with binding '{cluster.own}'"
    return f'pods "{pod}" is forbidden: {policy} denied request: {why}'


async def test_a_binding_is_taken_against_the_parameter(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await a_lease(cluster, 7)
        await cluster.pod()
        await guarded(cluster, absent="Allow")
        answer = await until_refused(cluster, "p", "6")
        assert answer.refused(403, "Forbidden") == denied(cluster, "p", "a term that is over")
        assert (await tried(cluster, "p", **{TERM: "7"})).status == 201
        assert (await tried(cluster, "p")).status == 201


async def test_a_condition_knows_the_parameter(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await a_lease(cluster, 7)
        await cluster.pod()
        another = f"{SAYS} && !({IS})"
        await guarded(cluster, absent="Allow", condition=another, validation="false")
        answer = await until_refused(cluster, "p", "6")
        assert answer.refused(403, "Forbidden") == denied(cluster, "p", "a term that is over")
        assert (await tried(cluster, "p", **{TERM: "7"})).status == 201
        assert (await tried(cluster, "p")).status == 201


async def test_a_parameter_that_changes_counts(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await a_lease(cluster, 1)
        await cluster.pod()
        await guarded(cluster, absent="Allow")
        await until_refused(cluster, "p", "2")
        lease = cluster.path("leases", LEASES, "lease")
        await cluster.admin.patch(lease, {"spec": {"leaseTransitions": 2}})
        await until_refused(cluster, "p", "1")
        assert (await tried(cluster, "p", **{TERM: "2"})).status == 201


async def test_a_policy_is_evaluated_before_the_pod_is_searched(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await a_lease(cluster, 1)
        await cluster.pod()
        await guarded(cluster, absent="Allow")
        await until_refused(cluster, "p", "2")
        nobody = secrets.token_hex(4)
        answer = await until_refused(cluster, nobody, "2")
        assert answer.refused(403, "Forbidden") == denied(cluster, nobody, "a term that is over")
        (await tried(cluster, nobody, **{TERM: "1"})).refused(404, "NotFound")


@pytest.mark.parametrize("notes", [{TERM: "1"}, {}], ids=["concerned", "not-concerned"])
async def test_nothing_passes_without_a_parameter_that_is_needed(
    open_cluster: OpenCluster, notes: dict[str, str]
) -> None:
    """Whether the conditions would hold is not asked then."""
    async with open_cluster() as cluster:
        await cluster.pod()
        await guarded(cluster, absent="Deny")
        await until_refused(cluster, "p", "1")
        answer = await tried(cluster, "p", **notes)
        why = "no params found for policy binding with `Deny` parameterNotFoundAction"
        why = f"failed to configure binding: {why}"
        assert answer.refused(422, "Invalid") == denied(cluster, "p", why)


async def test_all_passes_without_a_parameter_that_is_not_needed(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        await a_lease(cluster, 1)
        await cluster.pod()
        await guarded(cluster, absent="Allow")
        await until_refused(cluster, "p", "2")
        await cluster.admin.delete(cluster.path("leases", LEASES, "lease"))
        async with asyncio.timeout(SETTLED_S):
            while (await tried(cluster, "p", **{TERM: "2"})).status != 201:
                await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("reference", "field"),
    [
        ({"name": "lease"}, "spec.paramRef.parameterNotFoundAction"),
        ({"parameterNotFoundAction": "Deny"}, "spec.paramRef"),
        (
            {"name": "lease", "parameterNotFoundAction": "Perhaps"},
            "spec.paramRef.parameterNotFoundAction",
        ),
    ],
    ids=["nothing-said", "no-name", "unknown"],
)
async def test_a_reference_that_says_too_little_is_refused(
    open_cluster: OpenCluster, reference: Json, field: str
) -> None:
    async with open_cluster() as cluster:
        spec = {"policyName": "p", "validationActions": ["Deny"], "paramRef": reference}
        bound = {"metadata": {"name": cluster.own}, "spec": spec}
        answer = await cluster.admin.post(f"{GROUP}/validatingadmissionpolicybindings", bound)
        assert field in answer.refused(422, "Invalid")
