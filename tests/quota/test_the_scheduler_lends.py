"""What is lent and asked back is decided where cards are reserved, with nobody's help."""

import json

import msgspec

from tessera_core.explain.decision_log import DecisionLog
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.quota.objects import AcceleratorQuota, accelerator_limit
from tessera_core.registry.registry import load
from tessera_core.scheduling.filter import Filter
from tessera_core.slices import at_once, for_each
from tessera_schema.endpoints.extender import ExtenderFilterResult
from tessera_schema.kube import ObjectMeta
from tessera_testing.builders import a_card
from tests.dialects.adding import acme

REGISTRY = load(extra=[acme])
_read = msgspec.json.Decoder(ExtenderFilterResult).decode
_spec = msgspec.json.Decoder(AcceleratorQuota).decode


class Scheduler:
    """One node with cards of 16 GiB, and quotas as they are written."""

    def __init__(self, cards: int, **quotas: object) -> None:
        self.ledger, self.decisions = Ledger(), DecisionLog()
        facts = [a_card(f"card-{n}", n, vendor="acme") for n in range(cards)]
        self.ledger.put_node("n0", facts)
        self.filter = Filter(
            REGISTRY, self.ledger, Placer(self.ledger.fleet, ScreenCache()), self.decisions
        )
        limits = []
        for namespace, spec in quotas.items():
            quota = _spec(json.dumps({"spec": spec}).encode())
            meta = ObjectMeta(name="q", namespace=namespace)
            limits.append(
                accelerator_limit(msgspec.structs.replace(quota, metadata=meta), REGISTRY)
            )
        self.ledger.set_limits(limits)

    def place(self, namespace: str, name: str) -> bool:
        limits = {"acme.com/gib": "16"}
        container = {"name": "c", "resources": {"limits": limits, "requests": limits}}
        pod = {
            "metadata": {"name": name, "namespace": namespace, "uid": name},
            "spec": {"containers": [container]},
        }
        body = {"Pod": pod, "Nodes": None, "NodeNames": ["n0"]}
        return bool(_read(self.filter(json.dumps(body).encode(), 1.0)).node_names)

    def why(self, name: str) -> str:
        record = self.decisions.record(name, self.ledger.fleet)
        assert record is not None
        return record.message


def two_groups(cards: int = 4) -> Scheduler:
    own = {"guaranteed": {"memory": "32Gi"}}
    return Scheduler(cards, a=own, b=own)


def test_a_group_borrows_and_its_new_pods_wait_when_the_owner_requests() -> None:
    scheduler = two_groups()
    assert all(scheduler.place("b", f"b{n}") for n in range(3))
    assert scheduler.place("a", "a0")
    assert not scheduler.place("a", "a1")
    assert "0/1 nodes have room" in scheduler.why("a1")
    scheduler.ledger.forget("b2")
    assert not scheduler.place("b", "b3")
    assert scheduler.why("b3") == (
        "AcceleratorQuota q (32768 MiB of memory guaranteed, 0 lent by others) allows "
        "32768 MiB of memory, 32768 are used and 16384 asked"
    )
    assert scheduler.place("a", "a1")


def test_what_the_owner_gives_up_asking_is_lent_again() -> None:
    scheduler = two_groups(3)
    assert all(scheduler.place("b", f"b{n}") for n in range(3))
    assert not any(scheduler.place("a", f"a{n}") for n in range(2))
    scheduler.ledger.forget("b2")
    assert not scheduler.place("b", "b3")
    for n in range(2):
        scheduler.ledger.ended(f"a{n}")
    assert scheduler.place("b", "b3")


def test_after_a_new_list_those_who_are_gone_request_no_more() -> None:
    scheduler = two_groups(3)
    for n in range(2):
        assert scheduler.place("b", f"b{n}")
    scheduler.ledger.set_pending_request("gone", "a", next(scheduler.ledger.entries()).uses)
    scheduler.ledger.set_pending_request("there", "a", next(scheduler.ledger.entries()).uses)
    assert not scheduler.place("b", "b2")
    at_once(scheduler.ledger.relist({"b0", "b1", "there"}, 0.5, for_each((), lambda _: None)))
    assert scheduler.place("b", "b2")


def test_a_group_of_namespaces_is_granted_to_one_limit() -> None:
    scheduler = Scheduler(4, home={"namespaces": ["a", "b"], "hard": {"cards": 2}})
    assert scheduler.place("a", "a0")
    assert scheduler.place("b", "b0")
    assert not scheduler.place("a", "a1")
    assert scheduler.place("c", "c0")
