"""Settings of cards, node by node: which hold where, what they do to cards, and what is refused."""

import pytest
from msgspec.structs import replace

from tessera_core.dialect_kit.card_settings import CardSettings, HiddenCardNames, loosest
from tessera_core.dialect_kit.readings import CardReading, Readings
from tessera_core.fleet.charges import Charge
from tessera_core.inventory.extended_resources import amounts_of
from tessera_core.inventory.node_settings import BadNodeSettings
from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import load
from tessera_runtime.node_settings import parse_node_settings
from tessera_schema.cards import MIB, Card
from tessera_schema.kube import Node, ObjectMeta
from tessera_schema.reasons import Reason

REGISTRY = load()
CARDS = tuple(
    Card(id=f"GPU-{i}", index=i, vendor="nvidia", model=model, memory_bytes=16384 * MIB, slots=100)
    for i, model in enumerate(("NVIDIA-Tesla T4", "NVIDIA-A10"))
)


def a_node(name: str = "gpu-1", **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def settings_on(node: Node, text: str, vendor: str = "nvidia", **more: str) -> CardSettings:
    data = {"settings.yaml": text, **{key.replace("_", "."): text for key, text in more.items()}}
    return parse_node_settings(REGISTRY, data).on(node, vendor)


@pytest.mark.parametrize(
    ("entry", "holds"),
    [
        ("{slots: 3}", True),
        ("{names: [gpu-1], slots: 3}", True),
        ("{names: [gpu-2, 'gpu-?'], slots: 3}", True),
        ("{names: [gpu-2], slots: 3}", False),
        ("{labels: {pool: a}, slots: 3}", True),
        ("{labels: {pool: a, zone: b}, slots: 3}", False),
        ("{names: ['gpu-*'], labels: {pool: b}, slots: 3}", False),
        ("{vendor: nvidia, slots: 3}", True),
        ("{vendor: mthreads, slots: 3}", False),
    ],
)
def test_an_entry_selects_by_all_that_it_says(entry: str, *, holds: bool) -> None:
    found = settings_on(a_node(pool="a"), f"nodes: [{entry}]")
    assert found.slots == (3 if holds else None)


def test_a_later_entry_lies_over_an_earlier_one_and_hidden_cards_add_up() -> None:
    found = settings_on(
        a_node(),
        """
        nodes:
          - {slots: 3, memory_scaling: 0.5, charge_contexts: true, hidden: {indexes: [0]}}
          - {names: [gpu-1], slots: 5, log_level: 3, hidden: {ids: [GPU-7], models: [a10]}}
        """,
    )
    assert found == CardSettings(
        slots=5, memory_scaling=0.5, log_level=3, charge_contexts=True,
        hidden=HiddenCardNames(indexes=(0,), ids=("GPU-7",), models=("a10",)),
    )  # fmt: skip


def test_amounts_are_scaled_and_the_physical_size_stays_next_to_them() -> None:
    settings = CardSettings(memory_scaling=0.75, core_scaling=2, slots=4, mode="hami-core")
    first, _ = settings.applied_to(CARDS)
    assert (first.memory_bytes, first.physical_bytes) == (12288 * MIB, 16384 * MIB)
    assert (first.cores_percent, first.slots, first.mode) == (200, 4, "hami-core")
    # what is published and read again is not scaled a second time
    assert settings.applied_to((first,)) == (first,)
    assert CardSettings().applied_to((first,))[0].memory_bytes == CARDS[0].memory_bytes


def test_what_is_granted_beyond_cards_is_bounded_by_the_nodes_memory() -> None:
    settings = CardSettings(memory_scaling=2)
    on = settings.on_host(32 << 30, hooked=True)
    assert [card.memory_mib for card in on.applied_to(CARDS)] == [16384 + 8192] * 2
    said = CardSettings(memory_scaling=2, host_memory_mib=2048).on_host(32 << 30, hooked=True)
    assert [card.memory_mib for card in said.applied_to(CARDS)] == [16384 + 1024] * 2
    assert settings.on_host(1 << 40, hooked=True).applied_to(CARDS)[0].memory_mib == 32768
    # nothing puts memory of other vendors' cards there
    assert settings.on_host(1 << 40, hooked=False).applied_to(CARDS) == CARDS


def test_a_mode_of_the_hardware_stays() -> None:
    (card,) = CardSettings(mode="hami-core").applied_to((replace(CARDS[0], mode="mig"),))
    assert card.mode == "mig"


@pytest.mark.parametrize(
    "hidden",
    [
        HiddenCardNames(ids=("GPU-0",)),
        HiddenCardNames(indexes=(0,)),
        HiddenCardNames(models=("tesla",)),
    ],
)
def test_a_hidden_card_keeps_its_pods_and_takes_no_new_ones(hidden: HiddenCardNames) -> None:
    cards = CardSettings(hidden=hidden).applied_to(CARDS)
    assert [card.hidden for card in cards] == [True, False]
    ledger = Ledger()
    ledger.put_node("gpu-1", cards)
    fleet = ledger.fleet
    place = fleet.locate("gpu-1", "GPU-0")
    assert place is not None
    fleet.charge("gpu-1", "GPU-0", Charge(MIB, 0, 1, 0))
    assert fleet.cards.blocked[place] == Reason.CARD_HIDDEN
    assert fleet.cards.memory_used[place] == MIB


def test_hidden_cards_amount_to_nothing() -> None:
    cards = CardSettings(hidden=HiddenCardNames(indexes=(0,))).applied_to(CARDS)
    assert amounts_of(REGISTRY, "nvidia", cards)["nvidia.com/gpu"] == 100


def test_what_was_admitted_under_larger_amounts_is_not_refused_under_smaller_ones() -> None:
    now, before = CardSettings(memory_scaling=0.5, slots=2), CardSettings(core_scaling=2)
    card = loosest((now, before), CARDS[0])
    assert (card.memory_mib, card.cores_percent, card.slots) == (16384, 200, 100)
    assert loosest((now,), CARDS[0]) == now.applied_to(CARDS)[0]


def test_cards_without_memory_of_their_own_get_a_size() -> None:
    read = Readings(
        cards=(CardReading(id="a", index=0), CardReading(id="b", index=1, memory_bytes=5))
    )
    sized = CardSettings(unified_memory_mib=3).completed(read)
    assert [card.memory_bytes for card in sized.cards] == [3 * MIB, 5]
    assert CardSettings().completed(read) is read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: [{memory_scaling: 11}]", "nodes[0].memory_scaling: 11: write float <= 10.0"),
        ("nodes: [{slots: 0}]", "settings.yaml: nodes[0].slots: 0: write int >= 1"),
        ("nodes: [{slots: many}]", "settings.yaml: nodes[0].slots: 'many': write int"),
        (
            "nodes: [{}, {memory_scaling: -1}]",
            "settings.yaml: nodes[1].memory_scaling: -1: write float >= 0.01",
        ),
        ("nodes: [{log_level: 4}]", "settings.yaml: nodes[0].log_level: 4: write int <= 3"),
        ("nodes: [{slot: 3}]", "settings.yaml: nodes[0].slot: there is no such setting: write one"),
        (
            "nodes: [{hidden: {uuids: [a]}}]",
            "settings.yaml: nodes[0].hidden.uuids: there is no such setting: write one of ids, ",
        ),
        ("nodes: [{hidden: {indexes: [-1]}}]", "nodes[0].hidden.indexes[0]: -1: write int >= 0"),
        ("node: []", "settings.yaml: node: there is no such setting: write one of nodes"),
        ("nodes: {a: b}", 'settings.yaml: nodes: \'{"a":"b"}\': write array'),
        ("[]", "settings.yaml: write a mapping with the key nodes"),
        ("nodes: [{vendor: acme}]", "nodes[0].vendor: 'acme': write one of iluvatar, mthreads"),
        ("nodes: [{mode: mps}]", "mode mps: Tessera does not start its daemon"),
        ("nodes: [", "settings.yaml: "),
    ],
)
def test_what_makes_no_sense_is_refused_with_field_value_and_remedy(text: str, said: str) -> None:
    with pytest.raises(BadNodeSettings) as refused:
        settings_on(a_node(), text)
    assert said in str(refused.value)


def test_an_empty_file_sets_nothing() -> None:
    for text in ("", "nodes: []", "{}"):
        assert settings_on(a_node(), text) == CardSettings()


HAMIS = """{"nodeconfig": [
  {"name": "gpu-1", "operatingmode": "hami-core", "devicememoryscaling": 0.8,
   "devicecorescaling": 1.5, "deviceSplitCount": 10, "libcudaloglevel": 4,
   "preconfigureddevicememory": 4096, "migstrategy": "none", "enablenumatopology": true,
   "filterdevices": {"uuid": ["GPU-9"], "index": [1]}},
  {"name": "gpu-*", "devicesplitcount": 7, "devicememoryscaling": 0},
  {"name": "gpu-2", "devicesplitcount": "many", "colour": "red"},
  {"devicesplitcount": 3}
]}"""


def test_hamis_file_per_node_is_read_as_it_is() -> None:
    found = parse_node_settings(REGISTRY, {"config.json": HAMIS})
    assert found.on(a_node(), "nvidia") == CardSettings(
        slots=10, memory_scaling=0.8, core_scaling=1.5, mode="hami-core", log_level=3,
        unified_memory_mib=4096, hidden=HiddenCardNames(ids=("GPU-9",), indexes=(1,)),
    )  # fmt: skip
    # a name is no pattern there, and the file is for one vendor's cards
    assert found.on(a_node("gpu-3"), "nvidia") == CardSettings()
    assert found.on(a_node("gpu-*"), "nvidia") == CardSettings(slots=7)
    assert found.on(a_node(), "mthreads") == CardSettings()


def test_what_of_hamis_file_has_no_effect_is_named() -> None:
    assert parse_node_settings(REGISTRY, {"config.json": HAMIS}).ignored == (
        "config.json: nodeconfig[0].migstrategy: 'none': cards in MIG mode take no pods yet",
        "config.json: nodeconfig[0].enablenumatopology: True: the agent's setting "
        "TESSERA_PLUGIN_NUMA shows kubelet NUMA nodes",
        "config.json: nodeconfig[2]: 'many': write int, got str",
        "config.json: nodeconfig[2].colour: 'red': no such key is known",
        "config.json: nodeconfig[3]: without the name of a node: name the entry by it",
    )


def test_tesseras_settings_lie_over_hamis_and_other_files_are_named() -> None:
    data = {"settings.yaml": "nodes: [{slots: 4}]", "config.json": HAMIS, "notes.txt": "hello"}
    found = parse_node_settings(REGISTRY, data)
    assert found.on(a_node(), "nvidia").slots == 4
    assert found.on(a_node(), "nvidia").memory_scaling == 0.8
    assert found.ignored[-1].startswith("notes.txt: nothing reads this: write settings into")


def test_options_of_a_dialect_hold_on_all_nodes() -> None:
    config = {
        "deviceSplitCount": 10, "deviceMemoryScaling": 0.5, "deviceCoreScaling": 2,
        "preConfiguredDeviceMemory": 8192, "libCudaLogLevel": 1, "memoryFactor": 1,
    }  # fmt: skip
    known = load({"nvidia": config})
    assert known.card_settings("nvidia") == CardSettings(
        slots=10, memory_scaling=0.5, core_scaling=2, unified_memory_mib=8192, log_level=2
    )
    assert known.card_settings("mthreads") == CardSettings()
    assert load({"volcano": {"core_scaling": 2}}).card_settings("nvidia").core_scaling == 2
