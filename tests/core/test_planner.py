"""What the planner makes of a cluster as it is, good and bad."""

import json

import pytest
from msgspec.structs import replace

from tessera_core.planner import Planner
from tessera_core.recovery.cluster import Cluster
from tessera_core.registry.registry import load
from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant
from tessera_schema.kube import Pod, SecurityContext
from tessera_schema.quotas import Limit
from tessera_schema.reasons import Reason
from tessera_schema.verdicts import Verdict
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.plan import NOW_NS, plan
from tests.dialects.adding import acme

ACME = load(extra=[acme])
NODE = a_node("n1", annotations={"acme.com/cards": "A0:16"})


def planner(*bound: Pod, node: str = "A0:16") -> Planner:
    nodes = [a_node("n1", annotations={"acme.com/cards": node})]
    return Planner(ACME, Cluster(nodes=nodes, bound=bound))


def verdict(planner: Planner, gib: int) -> Verdict:
    return planner.plan(a_pod(a_container({"acme.com/gib": gib})), NOW_NS).verdict


def a_grant_of(uid: str, gib: int, **changes: object) -> str:
    share = Share(
        container="c0", position=0, vendor="acme", dialect="acme", card="A0", index=0,
        memory_bytes=gib << 30,
    )  # fmt: skip
    grant = Grant(uid=uid, namespace="default", name="p", node="n1", shares=(share,))
    return encode_grant(replace(grant, **changes))


def test_a_grant_of_tessera_is_taken_as_written() -> None:
    holder = a_pod(a_container(), uid="u", node="n1", annotations={GRANT_KEY: a_grant_of("u", 12)})
    ledger = planner(holder)
    assert ledger.warnings == []
    assert (verdict(ledger, 5), verdict(ledger, 4)) == ("waiting", "placed")


@pytest.mark.parametrize(
    "text",
    [
        a_grant_of("someone else", 1),
        a_grant_of("u", 1, node="elsewhere"),
        a_grant_of("u", 1 << 40),
        "not a grant",
    ],
)
def test_a_grant_that_is_not_the_pods_own_is_counted_by_its_requests(text: str) -> None:
    holder = a_pod(
        a_container({"acme.com/gib": 12}), uid="u", node="n1", annotations={GRANT_KEY: text}
    )
    ledger = planner(holder)
    assert "counted by its own requests" in ledger.warnings[0]
    assert (verdict(ledger, 5), verdict(ledger, 4)) == ("waiting", "placed")


def test_a_grant_of_a_newer_release_closes_its_node() -> None:
    text = json.dumps({"version": 2, "shares": "unknown"})
    ledger = planner(a_pod(a_container(), uid="u", node="n1", annotations={GRANT_KEY: text}))
    outcome = ledger.plan(a_pod(a_container({"acme.com/gib": 1})), NOW_NS)
    assert outcome.reasons[0].reason is Reason.NODE_BLOCKED


def test_running_pods_that_would_be_refused_today_are_counted() -> None:
    container = replace(
        a_container({"acme.com/card": 1}, name="c"),
        security_context=SecurityContext(privileged=True),
    )
    assert plan([a_pod(container)], [NODE], extra=[acme])[0].verdict is Verdict.REJECTED
    assert verdict(planner(a_pod(container, node="n1")), 1) is Verdict.WAITING


def test_a_running_pod_whose_requests_make_no_sense_closes_its_node() -> None:
    ledger = planner(a_pod(a_container({"acme.com/gib": "1.5"}), node="n1"))
    assert "1.5: write a whole number" in ledger.warnings[0]
    assert verdict(ledger, 1) is Verdict.WAITING


def test_a_node_that_lies_is_reported_and_takes_no_more() -> None:
    holders = [a_pod(a_container({"acme.com/gib": 12}), name=f"p{i}", node="n1") for i in "ab"]
    ledger = planner(*holders)
    assert "card A0 is granted beyond what it has: 24576 of 16384 MiB" in ledger.warnings[-1]
    assert verdict(ledger, 1) is Verdict.WAITING


def test_what_a_dialect_placed_counts_when_it_is_switched_off() -> None:
    off = load({"acme": {"enabled": False}}, extra=[acme])
    holder = a_pod(
        a_container({"acme.com/gib": 12}), uid="u", node="n1",
        annotations={"acme.com/given": "c0=A0"},
    )  # fmt: skip
    ledger = Planner(off, Cluster(nodes=[NODE], bound=[holder]))
    assert list(ledger.ledger.charges_on("n1")) == ["A0"]
    outcome = ledger.plan(a_pod(a_container({"acme.com/gib": 1})), NOW_NS)
    assert outcome.verdict is Verdict.IGNORED
    assert outcome.message == "asks for accelerators in dialect acme, which is switched off"


def test_quota_that_depends_on_the_card_is_reported_card_by_card() -> None:
    limit = Limit(namespace="default", source="q", memory_bytes=8 << 30)
    (outcome,) = plan(
        [a_pod(a_container({"acme.com/card": 1}))], [NODE], extra=[acme], limits=[limit]
    )
    assert outcome.verdict is Verdict.WAITING
    assert outcome.reasons[0].reason is Reason.RESOURCE_QUOTA_NOT_FIT


def test_result_keys_on_a_new_pod_are_removed_with_a_warning() -> None:
    notes = {"acme.com/given": "c0=A0", GRANT_KEY: "x", "tessera.dev/wake": "y"}
    pod = a_pod(a_container({"acme.com/gib": 1}), annotations=notes)
    (outcome,) = plan([pod], [NODE], extra=[acme])
    assert outcome.verdict is Verdict.PLACED
    assert outcome.annotations["acme.com/given"] == "c0=A0"
    assert all(key in outcome.warnings[0] for key in notes)


def test_a_resource_that_nobody_owns_must_be_on_the_node() -> None:
    pod = a_pod(a_container({"acme.com/gib": 1, "rdma/hca": 1}))
    (outcome,) = plan([pod], [NODE], extra=[acme])
    assert outcome.reasons[0].message == "rdma/hca: asks 1, 0 of 0 free"
    with_it = a_node("n1", annotations=NODE.metadata.annotations, capacity={"rdma/hca": 1})
    outcomes = plan([pod, replace(pod, metadata=a_pod(name="q").metadata)], [with_it], extra=[acme])
    assert [o.verdict for o in outcomes] == ["placed", "waiting"]


def test_whole_cards_of_unknown_memory_are_given_and_parts_are_not() -> None:
    node = a_node(capacity={"volcano.sh/gpu-number": 1})
    half = a_pod(a_container({"koordinator.sh/gpu-memory-ratio": 50}), name="half")
    whole = a_pod(a_container({"volcano.sh/gpu-number": 1}), name="whole")
    assert [o.verdict for o in plan([half, whole], [node])] == ["waiting", "placed"]


def test_admitting_an_admitted_pod_again_speaks_the_same_dialect() -> None:
    scheduler = "koord-scheduler"
    first = plan([a_pod(a_container({"nvidia.com/gpumem": 100}), scheduler=scheduler)], [])[0]
    limits = dict(first.containers["c0"].limits)
    again = plan([a_pod(a_container(limits, limits), scheduler=scheduler)], [])[0]
    assert (first.dialects, again.dialects) == (("hami",), ("hami",))
