"""A pod that a quota keeps waiting learns which object, what it allows, what is used and what the
pod asks, in every dimension; and the cards of a node that has too few say their own reasons."""

import pytest
from msgspec.structs import replace

from tessera_core.explain.reasons import reasons_of_node
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.place import NoNode
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_schema.cards import MIB, Siting
from tessera_schema.grants import Grant, Share
from tessera_schema.quotas import Limit
from tessera_schema.reasons import Reason
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tessera_testing.builders import a_card

GIB = 1024 * MIB
CARDS = 8


def a_pod(**asked: object) -> PodRequest:
    request = replace(Request(vendor="acme", dialect="acme", count=1), **asked)
    container = ContainerRequest(container="main", position=0, role=Role.APP, requests=(request,))
    return PodRequest(namespace="team", name="p", uid="p", containers=(container,))


def a_ledger(limit: dict[str, object]) -> Ledger:
    """A node of eight cards of 16 GiB, of one of which the namespace holds 4 GiB and a fifth."""
    ledger = Ledger()
    ledger.put_node("n1", [
        a_card(f"c{i}", i, model="A100", siting=Siting(pool="east")) for i in range(CARDS)
    ])  # fmt: skip
    share = Share(
        container="c", position=0, vendor="acme", dialect="acme", card="c0", index=0,
        memory_bytes=4 * GIB, cores_percent=20,
    )  # fmt: skip
    grant = Grant(uid="busy", namespace="team", name="busy", node="n1", shares=(share,))
    ledger.observe(ObservedPod(uid="busy", grant=grant), 0)
    source = "AcceleratorQuota team/gpus"
    ledger.set_limits([replace(Limit(namespace="team", source=source), **limit)])
    return ledger


WHOLE = {"memory_percent": 100, "exclusive": True}


@pytest.mark.parametrize(
    ("limit", "asked", "reported"),
    [
        pytest.param(
            {"memory_bytes": 12 * GIB}, {**WHOLE},
            "allows 12288 MiB of memory, 4096 are used and 16384 asked", id="a whole card",
        ),
        pytest.param(
            {"memory_bytes": 12 * GIB}, {"memory_percent": 60},
            "allows 12288 MiB of memory, 4096 are used and 9830 asked", id="a percentage",
        ),
        pytest.param(
            {"memory_bytes": 24 * GIB}, {**WHOLE, "count": 3},
            "allows 24576 MiB of memory, 4096 are used and 32768 asked", id="the second of three",
        ),
        pytest.param(
            {"models": {"A100": 1.0}}, {"memory_bytes": 15 * GIB},
            "allows 1 cards of model A100, 0.25 are used and 0.9375 asked", id="a model",
        ),
        pytest.param(
            {"models": {"T4": 4.0}}, {"memory_bytes": 1 * GIB},
            "allows no cards of model A100", id="another model",
        ),
        pytest.param(
            {"node_pools": ("west", "north")}, {"memory_bytes": 1 * GIB},
            "allows node pools west, north, the node is in east", id="a pool",
        ),
    ],
)  # fmt: skip
def test_the_limit_is_named_with_its_numbers(
    limit: dict[str, object], asked: dict[str, object], reported: str
) -> None:
    ledger, pod = a_ledger(limit), a_pod(**asked)
    allowance = ledger.allowance("team")
    assert isinstance(Placer(ledger.fleet).place(pod, allowance), NoNode)
    unfit = Placer(ledger.fleet).fit(ledger.fleet.rows["n1"], units(pod), allowance)
    assert isinstance(unfit, NoFit)
    whys = reasons_of_node("n1", unfit)
    (why,) = [w for w in whys if w.reason is Reason.RESOURCE_QUOTA_NOT_FIT]
    assert why.message.endswith(f"ResourceQuotaNotFit: AcceleratorQuota team/gpus {reported}")


def test_each_card_of_a_node_with_too_few_has_its_own_reason() -> None:
    ledger = a_ledger({})
    unfit = Placer(ledger.fleet).fit(
        ledger.fleet.rows["n1"],
        units(a_pod(count=9, memory_bytes=13 * GIB)),
        ledger.allowance(""),
    )
    assert isinstance(unfit, NoFit)
    assert unfit.codes is not None
    assert unfit.codes.tolist() == [Reason.CARD_INSUFFICIENT_MEMORY] + [0] * (CARDS - 1)
    (why,) = reasons_of_node("n1", unfit)
    assert (why.reason, why.message) == (
        Reason.NODE_INSUFFICIENT_DEVICE, "main asks for 9 acme cards, the node has 8",
    )  # fmt: skip
