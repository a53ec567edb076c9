"""Cards as Koordinator publishes them: Device objects, node labels, node totals."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from tessera_core.ledger.ledger import Ledger
from tessera_schema.cards import Card, Inventory, Precision
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import Custom, Node, ObjectMeta, Quantity
from tessera_testing.builders import a_node
from tests.dialects.koordinator.spoken import KOORDINATOR, NAMES, UUIDS, a_device, devices

KI = 1 << 10
MODEL = "node.koordinator.sh/gpu-model"
VENDOR = "node.koordinator.sh/gpu-vendor"


def found(*customs: Custom, node: Node | None = None) -> Inventory:
    (inventory,) = KOORDINATOR.inventory(node or a_node(), customs)
    return inventory


def the_card(entry: dict[str, Any], **labels: str) -> Card:
    inventory = found(devices(entry, labels=labels))
    assert not inventory.warnings
    (card,) = inventory.cards
    return card


def test_a_device_has_everything_that_placement_needs() -> None:
    entry = a_device(3, "83201216Ki", switch="0", numa=1, id=UUIDS[0], moduleID=4)
    inventory = found(devices(entry), node=a_node(labels={MODEL: "A100"}))
    assert (inventory.vendor, inventory.source) == ("nvidia", "koordinator")
    assert inventory.precision is Precision.REGISTERED
    assert inventory.cards == (
        Card(
            id=UUIDS[0], index=3, minor=3, vendor="nvidia", model="A100",
            memory_bytes=83201216 * KI, cores_percent=100, slots=100, numa=1, switch="0",
        ),
    )  # fmt: skip


def test_a_device_without_id_and_topology_is_a_card_all_the_same() -> None:
    card = the_card(a_device(1, "24Gi"))
    assert card.id == "n1-nvidia-1"
    assert card.switch == ""


@pytest.mark.parametrize(
    "facts", [{"health": False}, {"health": False, "resources": None}, {"health": "false"}]
)
def test_an_unhealthy_card_stays_unhealthy(facts: dict[str, Any]) -> None:
    assert not the_card(a_device(1) | facts).healthy


def test_a_card_whose_health_is_not_known_is_unhealthy() -> None:
    entry = a_device(0)
    del entry["health"]
    assert not the_card(entry).healthy


def test_deprecated_names_are_read() -> None:
    resources = {"kubernetes.io/gpu-core": "100", "kubernetes.io/gpu-memory": "8Gi"}
    card = the_card(a_device(0) | {"resources": resources}, **{"kubernetes.io/gpu-model": "T4"})
    assert card.memory_bytes == 8 << 30
    assert card.model == "T4"


def test_cores_are_a_hundred_where_they_are_not_known() -> None:
    card = the_card(a_device(0) | {"resources": {NAMES["mem"]: 1024}})
    assert card.cores_percent == 100
    assert card.memory_bytes == 1024


def test_a_number_for_a_switch_is_its_name() -> None:
    assert the_card(a_device(0) | {"topology": {"nodeID": 0, "pcieID": 7}}).switch == "7"
    assert the_card(a_device(0) | {"topology": {"nodeID": -1, "pcieID": "x"}}).numa == 0


def test_other_devices_are_not_cards() -> None:
    assert not KOORDINATOR.inventory(a_node(), [devices({"type": "rdma", "minor": 0})])


def test_another_nodes_device_belongs_to_another() -> None:
    other = devices(a_device(0), node="n2")
    kind = Custom(kind="Widget", metadata=ObjectMeta(name="n1"), spec=devices(a_device(0)).spec)
    assert not KOORDINATOR.inventory(a_node(), [other, kind])


TABLE = "scheduling.koordinator.sh/gpu-partitions"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("{", "no partition is known", id="no-json"),
        pytest.param('{"2": 1}', "no partition is known", id="no-list"),
        pytest.param('{"2": [{"minors": [0]}]}', "[2][0]", id="another-number-of-cards"),
        pytest.param('{"2": [{"minors": [0, 0]}]}', "[2][0]", id="one-card-twice"),
        pytest.param('{"2": [{"minors": [0, -1]}]}', "[2][0]", id="below-0"),
        pytest.param('{"1": [{"minors": [0], "ringBusBandwidth": "much"}]}', "[1][0]", id="speed"),
        pytest.param('{"1": [{"minors": [0], "allocationScore": -1}]}', "[1][0]", id="score"),
        pytest.param('{"0": [{}]}', "[0][0]", id="no-cards"),
    ],
)
def test_a_table_of_partitions_that_cannot_be_read_is_reported(text: str, says: str) -> None:
    device = devices(a_device(0))
    meta = replace(device.metadata, annotations={TABLE: text})
    inventory = found(replace(device, metadata=meta))
    assert len(inventory.cards) == 1
    assert inventory.cards[0].siting is UNSET
    (warning,) = inventory.warnings
    assert says in warning
    assert TABLE in warning


@pytest.mark.parametrize("vendor", ["huawei", "cambricon"])
def test_other_vendors_cards_belong_to_others(vendor: str) -> None:
    cards = [devices(a_device(0))]
    assert not KOORDINATOR.inventory(a_node(labels={VENDOR: vendor}), cards)
    assert KOORDINATOR.inventory(a_node(labels={VENDOR: "nvidia"}), cards)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("gpu", "spec.devices[1]"),
        ({"type": "gpu", "minor": "x"}, "minor"),
        (a_device(-1), "minor -1"),
        (a_device(1) | {"resources": None}, "without koordinator.sh/gpu-memory"),
        (a_device(1, "much"), "not a quantity"),
        (a_device(1, "-1Gi"), "not between"),
        (a_device(1, "9Ei"), "64 bits"),
        (a_device(1, "7Ei"), "not between"),
        (a_device(1) | {"resources": "all"}, "resources"),
        (a_device(1) | {"topology": {"nodeID": "far"}}, "nodeID"),
        (a_device(0), "twice"),
        (a_device(1, id=UUIDS[0]), "twice"),
    ],
)
def test_what_cannot_be_read_is_a_warning_and_the_rest_is_used(entry: object, says: str) -> None:
    inventory = found(devices(a_device(0, id=UUIDS[0]), entry))
    assert [c.index for c in inventory.cards] == [0]
    (warning,) = inventory.warnings
    assert warning.startswith("node n1: Device spec.devices[1]")
    assert says in warning


@pytest.mark.parametrize("spec", [{"devices": "none"}, {"devices": {"type": "gpu"}}])
def test_a_device_object_that_makes_no_sense_is_a_warning(spec: dict[str, Any]) -> None:
    custom = Custom(kind="Device", metadata=ObjectMeta(name="n1"), spec=spec)
    inventory = found(custom)
    assert not inventory.cards
    assert "spec.devices" in inventory.warnings[0]


@pytest.mark.parametrize("spec", [{}, {"devices": None}, {"devices": []}])
def test_a_device_object_without_cards_is_silent(spec: dict[str, Any]) -> None:
    custom = Custom(kind="Device", metadata=ObjectMeta(name="n1"), spec=spec)
    assert not KOORDINATOR.inventory(a_node(), [custom])


TOTALS: dict[str, Quantity] = {
    NAMES["gpu"]: 200, NAMES["core"]: 200, NAMES["ratio"]: 200, NAMES["sh"]: 200,
    NAMES["mem"]: "32Gi",
}  # fmt: skip


@pytest.mark.parametrize(
    "totals",
    [
        pytest.param(TOTALS, id="M1"),
        pytest.param({k: v for k, v in TOTALS.items() if k != NAMES["gpu"]}, id="no-wrapper"),
    ],
)
def test_without_a_device_object_totals_are_equal_cards(totals: dict[str, Quantity]) -> None:
    node = a_node(capacity=totals, labels={MODEL: "A100", VENDOR: "nvidia"})
    inventory = found(node=node)
    assert inventory.precision is Precision.COUNTED
    assert [(c.index, c.model, c.memory_bytes >> 30, c.slots) for c in inventory.cards] == [
        (0, "A100", 16, 100), (1, "A100", 16, 100),
    ]  # fmt: skip


@pytest.mark.parametrize("_case", [pytest.param(0, id="M2")])
def test_totals_of_another_vendor_belong_to_others(_case: int) -> None:
    assert not KOORDINATOR.inventory(a_node(capacity=TOTALS, labels={VENDOR: "huawei"}), [])


@pytest.mark.parametrize("_case", [pytest.param(0, id="M4")])
def test_a_node_without_totals_and_device_has_no_cards(_case: int) -> None:
    assert not KOORDINATOR.inventory(a_node(capacity={"cpu": 1}), [])


def test_a_device_object_says_more_than_totals() -> None:
    inventory = found(devices(a_device(0)), node=a_node(capacity=TOTALS))
    assert inventory.precision is Precision.REGISTERED
    assert len(inventory.cards) == 1


@pytest.mark.parametrize("_case", [pytest.param(0, id="M5")])
def test_a_device_object_that_comes_back_is_as_full_as_before(_case: int) -> None:
    cards = found(devices(a_device(0, "24Gi"))).cards
    share = Share(
        container="c0", position=0, vendor="nvidia", dialect="koordinator", card=cards[0].id,
        index=0, memory_bytes=12 << 30, cores_percent=50,
    )  # fmt: skip
    ledger = Ledger()
    ledger.put_node("n1", cards)
    grant = Grant(uid="u", namespace="default", name="p", node="n1", shares=(share,))
    assert ledger.assume([grant], 0) is None
    ledger.put_node("n1", ())
    ledger.put_node("n1", cards)
    place = ledger.fleet.locate("n1", cards[0].id)
    assert place is not None
    assert ledger.fleet.cards.memory_used[place] == 12 << 30
