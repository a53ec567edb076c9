"""ValidatingAdmissionPolicies on a real API server: who may do everything to pods and nodes still
may not write what Tessera believes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tessera_schema.annotation_keys import OWNER_KEYS, RESERVE_KEY, SCHEDULER, TERM_KEY
from tessera_schema.resizes import RESIZE_KEY
from tests.contract.client import Answer, Client, Json
from tests.contract.objects import a_binding, a_pod
from tests.deploy.installed import NAMESPACE, PODS, SETTLED_S, TENANT, Installed

GRANT = "tessera.dev/grant"
OTHERS = [
    "hami.io/vgpu-devices-allocated", "volcano.sh/gpu-index",
    "scheduling.koordinator.sh/device-allocated", "tencent.com/predicate-gpu-idx-0",
    "iluvatar.ai/predicate-gpu-idx-0", "mthreads.com/gpu-index",
]  # fmt: skip
RESULTS = [GRANT, "tessera.dev/anything", *OTHERS]
CARDS = "cards.tessera.dev/nvidia"
POLICY = "ValidatingAdmissionPolicy"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
AGENT_LEASES = "/apis/coordination.k8s.io/v1/namespaces/tessera-agent-leases/leases"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/tessera-scheduler"


def notes(**annotations: str | None) -> Json:
    return {"metadata": {"annotations": annotations}}


def refused(answer: Answer, *words: str) -> None:
    message = answer.refused(403, "Forbidden")
    assert POLICY in message
    assert all(word in message for word in words), message


@asynccontextmanager
async def a_pod_of(
    admin: Client, *, scheduler: str = SCHEDULER, **annotations: str
) -> AsyncGenerator[str]:
    """Its path. It is as the scheduler bound it."""
    name = f"p-{secrets.token_hex(4)}"
    pod = a_pod(name, schedulerName=scheduler)
    pod["metadata"]["annotations"] = annotations
    (await admin.post(PODS, pod)).done  # noqa: B018  (checks)
    try:
        yield f"{PODS}/{name}"
    finally:
        await admin.delete(f"{PODS}/{name}", gracePeriodSeconds="0")


@pytest.mark.parametrize("key", RESULTS)
@pytest.mark.parametrize("part", ["", "/status"])
async def test_a_tenant_does_not_set_what_schedulers_write(
    installed: Installed, key: str, part: str
) -> None:
    async with installed.clients() as clients, a_pod_of(clients["admin"]) as path:
        answer = await clients["tenant"].patch(path + part, notes(**{key: "forged"}))
    refused(answer, "written by Tessera alone")


@pytest.mark.parametrize("key", OTHERS)
@pytest.mark.parametrize("part", ["", "/status"])
async def test_other_systems_go_on_with_their_own_pods(
    installed: Installed, key: str, part: str
) -> None:
    """The overlay serves HAMi's profile as well, so this is a scheduler that is not served."""
    async with (
        installed.clients() as clients,
        a_pod_of(clients["admin"], scheduler="their-scheduler") as path,
    ):
        answer = await clients["tenant"].patch(path + part, notes(**{key: "theirs"}))
        again = await clients["tenant"].patch(path + part, notes(**{key: None}))
        own = await clients["tenant"].patch(path + part, notes(**{GRANT: "forged"}))
    assert answer.done["metadata"]["annotations"] == {key: "theirs"}
    assert again.status == 200
    assert any("tessera-foreign-keys" in warning for warning in answer.warnings)
    refused(own, "written by Tessera alone")


@pytest.mark.parametrize("value", ["forged", None])
@pytest.mark.parametrize("part", ["", "/status"])
async def test_a_tenant_does_not_edit_or_remove_a_grant(
    installed: Installed, value: str | None, part: str
) -> None:
    async with (
        installed.clients() as clients,
        a_pod_of(clients["admin"], **{GRANT: "signed"}) as path,
    ):
        answer = await clients["tenant"].patch(path + part, notes(**{GRANT: value}))
        there = (await clients["admin"].get(path)).done
    refused(answer, "written by Tessera alone")
    assert there["metadata"]["annotations"][GRANT] == "signed"


async def test_a_tenant_does_not_bind_with_a_grant(installed: Installed) -> None:
    async with installed.clients() as clients, a_pod_of(clients["admin"]) as path:
        binding = a_binding(path.rpartition("/")[2], "one")
        binding["metadata"]["annotations"] = {GRANT: "forged"}
        answers = [
            await clients["tenant"].post(f"{path}/binding", binding),
            await clients["tenant"].post(PODS.replace("pods", "bindings"), binding),
        ]
        there = (await clients["admin"].get(path)).done
    for answer in answers:
        refused(answer)
    assert "nodeName" not in there["spec"]


async def test_a_tenants_own_annotations_are_nobodys_business(installed: Installed) -> None:
    async with (
        installed.clients() as clients,
        a_pod_of(clients["admin"], **{GRANT: "signed"}) as path,
    ):
        plain = await clients["tenant"].patch(path, notes(team="a"))
        status: Json = {"status": {"phase": "Running"}}
        reported = await clients["tenant"].patch(f"{path}/status", status)
        bound = await clients["tenant"].post(
            f"{path}/binding", a_binding(path.rpartition("/")[2], "one")
        )
    assert plain.done["metadata"]["annotations"] == {GRANT: "signed", "team": "a"}
    assert reported.done["status"]["phase"] == "Running"
    assert bound.status == 201


async def test_the_scheduler_binds_with_a_grant_and_restores_it(installed: Installed) -> None:
    async with installed.clients() as clients, a_pod_of(clients["admin"]) as path:
        scheduler = clients["scheduler"]
        binding = a_binding(path.rpartition("/")[2], "one")
        binding["metadata"]["annotations"] = {GRANT: "signed", "volcano.sh/gpu-index": "0"}
        assert (await scheduler.post(f"{path}/binding", binding)).status == 201
        again = await scheduler.patch(path, notes(**{GRANT: "signed anew"}))
    assert again.done["metadata"]["annotations"][GRANT] == "signed anew"


async def takes_the_lease(scheduler: Client, term: int) -> None:
    lease = (await scheduler.get(LEASE)).done
    lease["spec"]["leaseTransitions"] = term
    assert (await scheduler.put(LEASE, lease)).status == 200


async def test_a_former_leader_grants_nothing_and_changes_no_grant(installed: Installed) -> None:
    """The term of a grant is the Lease's; where none is said, as by other versions, all pass."""
    async with installed.clients() as clients, a_pod_of(clients["admin"]) as path:
        scheduler, binding = clients["scheduler"], a_binding(path.rpartition("/")[2], "one")
        await takes_the_lease(scheduler, 4)
        binding["metadata"]["annotations"] = {GRANT: "signed", TERM_KEY: "3"}
        async with asyncio.timeout(SETTLED_S):  # a watch reports the new Lease
            while (await scheduler.post(f"{path}/binding", binding, dryRun="All")).status == 201:
                await asyncio.sleep(0.1)
        answer = await scheduler.post(f"{path}/binding", binding)
        refused(answer, "a term of the scheduler's Lease that is over")
        refused(await scheduler.post(PODS.replace("pods", "bindings"), binding), "a term")
        binding["metadata"]["annotations"][TERM_KEY] = "4"
        assert (await scheduler.post(f"{path}/binding", binding)).status == 201
        refused(await scheduler.patch(path, notes(**{GRANT: "anew", TERM_KEY: "3"})), "a term")
        for written in ({GRANT: "anew", TERM_KEY: "4"}, {"tessera.dev/other": "x"}):
            assert (await scheduler.patch(path, notes(**written))).status == 200
        await takes_the_lease(scheduler, 5)
        plain = await clients["tenant"].patch(path, notes(team="a"))
        unsaid = await scheduler.patch(path, notes(**{GRANT: "by another version", TERM_KEY: None}))
    assert plain.done["metadata"]["annotations"][GRANT] == "anew"
    assert unsaid.done["metadata"]["annotations"][GRANT] == "by another version"


@pytest.mark.parametrize("key", [RESIZE_KEY, RESERVE_KEY])
async def test_the_rebalancer_requests_and_grants_nothing(installed: Installed, key: str) -> None:
    async with installed.clients() as clients, a_pod_of(clients["admin"]) as path:
        rebalancer = clients["rebalancer"]
        asked = await rebalancer.patch(path, notes(**{key: "{}"}))
        taken_back = await rebalancer.patch(path, notes(**{key: None}))
        granted = await rebalancer.patch(path, notes(**{GRANT: "forged", key: "{}"}))
        tenant = await clients["tenant"].patch(path, notes(**{key: "{}"}))
        scheduler = await clients["scheduler"].patch(path, notes(**{key: "{}"}))
    assert asked.done["metadata"]["annotations"] == {key: "{}"}
    assert "annotations" not in taken_back.done["metadata"]
    refused(granted, "written by Tessera alone")
    refused(tenant, "pods/resize" if key == RESIZE_KEY else "written by Tessera alone")
    assert scheduler.status == 200


async def test_a_resize_is_for_those_whose_roles_let_them_resize(installed: Installed) -> None:
    async with installed.clients() as clients, a_pod_of(clients["admin"]) as path:
        asked = notes(**{RESIZE_KEY: "{}"})
        refused(await clients["tenant"].patch(path, asked), "pods/resize", "tessera-resizer")
        admin = await clients["admin"].patch(path, asked)
        await clients["admin"].patch(path, notes(**{RESIZE_KEY: None}))
        await let_resize(clients["admin"])
        async with asyncio.timeout(SETTLED_S):  # roles are in force a moment after they are bound
            while (answer := await clients["tenant"].patch(path, asked)).status == 403:
                await asyncio.sleep(0.1)
        reserved = await clients["tenant"].patch(path, notes(**{RESERVE_KEY: "{}"}))
        await clients["admin"].delete(f"{RBAC}/namespaces/default/rolebindings/resizers")
    assert admin.done["metadata"]["annotations"] == {RESIZE_KEY: "{}"}
    assert answer.done["metadata"]["annotations"] == {RESIZE_KEY: "{}"}
    refused(reserved, "written by Tessera alone")


async def let_resize(admin: Client) -> None:
    """Bind the role that is installed for it, in the namespace of the pods."""
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "tessera-resizer"}
    subject = {"apiGroup": group, "kind": "User", "name": TENANT}
    body: Json = {"metadata": {"name": "resizers"}, "roleRef": role, "subjects": [subject]}
    path = f"{RBAC}/namespaces/default/rolebindings"
    (await admin.post(path, body)).done  # noqa: B018  (checks)


@pytest.mark.parametrize("key", sorted(OWNER_KEYS))
async def test_an_owner_writes_its_preferences(installed: Installed, key: str) -> None:
    async with installed.clients() as clients, a_pod_of(clients["admin"]) as path:
        wished = await clients["tenant"].patch(path, notes(**{key: "false"}))
    assert wished.done["metadata"]["annotations"] == {key: "false"}


# -- nodes


async def test_an_agent_writes_its_own_nodes_cards(installed: Installed) -> None:
    async with installed.clients() as clients:
        done = await clients["agent"].patch("/api/v1/nodes/one", notes(**{CARDS: "{}"}))
    assert done.done["metadata"]["annotations"][CARDS] == "{}"


async def test_an_agent_does_not_write_another_node(installed: Installed) -> None:
    async with installed.clients() as clients:
        answer = await clients["agent"].patch("/api/v1/nodes/two", notes(**{CARDS: "{}"}))
    refused(answer, "its own node only", "'one'")


async def test_an_agent_advertises_names_on_its_own_node(installed: Installed) -> None:
    amounts = {"example.org/share": "1125899906842624"}
    status: Json = {"status": {"capacity": amounts, "allocatable": amounts}}
    async with installed.clients() as clients:
        agent = clients["agent"]
        done = await agent.patch("/api/v1/nodes/one/status", status)
        away: Json = {
            "status": {"capacity": dict.fromkeys(amounts), "allocatable": dict.fromkeys(amounts)}
        }
        undone = await agent.patch("/api/v1/nodes/one/status", away)
        elsewhere = await agent.patch("/api/v1/nodes/two/status", status)
    assert amounts.items() <= done.done["status"]["capacity"].items()
    assert not amounts.keys() & undone.done["status"]["capacity"].keys()
    refused(elsewhere, "its own node only")


@pytest.mark.parametrize(
    "status",
    [
        {"capacity": {"cpu": "400"}},
        {"allocatable": {"memory": None}},
        {"conditions": [{"type": "Ready", "status": "False", "reason": "Forged"}]},
        {"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]},
    ],
    ids=["more", "less", "condition", "address"],
)
async def test_an_agent_changes_nothing_else_of_a_status(
    installed: Installed, status: Json
) -> None:
    async with installed.clients() as clients:
        answer = await clients["agent"].patch("/api/v1/nodes/one/status", {"status": status})
    refused(answer, "amounts of extended resources")


def a_heartbeat(name: str) -> Json:
    spec = {"holderIdentity": "someone", "renewTime": "2026-01-01T00:00:00.000000Z"}
    return {"metadata": {"name": name}, "spec": spec}


async def test_an_agent_renews_the_lease_of_its_own_node(installed: Installed) -> None:
    async with installed.clients() as clients:
        agent = clients["agent"]
        made = (await agent.post(AGENT_LEASES, a_heartbeat("agent.nvidia.one"))).done
        made["spec"]["renewTime"] = "2026-01-01T00:00:20.000000Z"
        assert (await agent.put(f"{AGENT_LEASES}/agent.nvidia.one", made)).status == 200
        for other in ("agent.nvidia.two", "agent.one", "agent.nvidia.one.example", "scheduler"):
            refused(await agent.post(AGENT_LEASES, a_heartbeat(other)), "its own node only")
        unbound = await clients["agent-unbound"].post(
            AGENT_LEASES, a_heartbeat("agent.mthreads.one")
        )
        refused(unbound, "its own node only")
        assert (await clients["admin"].delete(f"{AGENT_LEASES}/agent.nvidia.one")).status == 200


async def test_nobody_else_renews_an_agents_lease(installed: Installed) -> None:
    async with installed.clients() as clients:
        for who in ("admin", "scheduler"):
            answer = await clients[who].post(AGENT_LEASES, a_heartbeat("agent.nvidia.two"))
            refused(answer, "and n")
        made = await clients["scheduler"].post(AGENT_LEASES, a_heartbeat("scheduler"))
        assert made.status == 201
        assert (await clients["admin"].delete(f"{AGENT_LEASES}/scheduler")).status == 200


async def test_an_agents_token_that_names_no_node_writes_none(installed: Installed) -> None:
    async with installed.clients() as clients:
        answer = await clients["agent-unbound"].patch("/api/v1/nodes/one", notes(**{CARDS: "{}"}))
    refused(answer, "its own node only")


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        {"metadata": {"annotations": {"tessera.dev/wake": "1"}}},
        {"metadata": {"annotations": {"other": "1"}}},
        {"metadata": {"finalizers": ["example.org/stay"]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
    ],
    ids=["label", "wake", "annotation", "finalizer", "cordon", "taint"],
)
@pytest.mark.parametrize("who", ["agent", "scheduler"])
async def test_nothing_else_of_a_node_is_foreign(
    installed: Installed, who: str, change: Json
) -> None:
    if who == "scheduler" and "tessera.dev/wake" in str(change):
        change = {"metadata": {"annotations": {CARDS: "[]"}}}
    async with installed.clients() as clients:
        answer = await clients[who].patch("/api/v1/nodes/one", change)
    refused(answer, "nothing")


async def test_the_scheduler_wakes(installed: Installed) -> None:
    async with installed.clients() as clients:
        done = await clients["scheduler"].patch(
            "/api/v1/nodes/two", notes(**{"tessera.dev/wake": "1"})
        )
    assert done.done["metadata"]["annotations"]["tessera.dev/wake"] == "1"


@pytest.mark.parametrize("key", [CARDS, "tessera.dev/wake"])
@pytest.mark.parametrize("part", ["", "/status"])
async def test_a_tenant_does_not_write_a_nodes_cards(
    installed: Installed, key: str, part: str
) -> None:
    async with installed.clients() as clients:
        answer = await clients["tenant"].patch(f"/api/v1/nodes/two{part}", notes(**{key: "forged"}))
    refused(answer, "leave these annotations as they are")


async def test_a_kubelet_goes_on_publishing_its_status(installed: Installed) -> None:
    status: Json = {"status": {"capacity": {"example.org/thing": "3"}}}
    async with installed.clients() as clients:
        await clients["agent"].patch("/api/v1/nodes/one", notes(**{CARDS: "{}"}))
        reported = await clients["tenant"].patch("/api/v1/nodes/one/status", status)
        plain = await clients["tenant"].patch("/api/v1/nodes/one", notes(other="1"))
    assert reported.done["status"]["capacity"]["example.org/thing"] == "3"
    assert plain.status == 200


async def test_other_accounts_of_our_namespace_are_nobody_special(installed: Installed) -> None:
    """`default` has no role, so this is about the policy alone."""
    async with installed.clients() as clients:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        await clients["admin"].post(path, {"metadata": {"name": "stranger"}})
        made = await clients["admin"].post(f"{path}/stranger/token", {"spec": {}})
        stranger = clients["admin"].named(made.done["status"]["token"])
        answer = await stranger.patch("/api/v1/nodes/one", notes(**{CARDS: "{}"}))
    answer.refused(403, "Forbidden")
