"""Readings of a driver become cards as the ledger and the dialects know them."""

import pytest
from msgspec.structs import replace

from tessera_core.dialect_kit.readings import CardReading, Link, Readings
from tessera_core.vendors.nvidia import MONITORING, model_of


def a_box(*switches: str) -> tuple[CardReading, ...]:
    """Cards; those with the same letter hang from one switch."""
    return tuple(
        CardReading(
            id=f"GPU-{i}", index=i, minor=i, bus=f"0000:{i:02x}:00.0", memory_bytes=1 << 34,
            paths={
                f"GPU-{j}": Link.SINGLE_SWITCH if there == here else Link.CROSS_CPU
                for j, there in enumerate(switches)
                if i != j
            },
        )
        for i, here in enumerate(switches)
    )  # fmt: skip


def test_cards_of_one_switch_share_its_name() -> None:
    cards, problems = MONITORING.cards(Readings(cards=a_box("a", "a", "b", "b")), 10)
    assert [c.switch for c in cards] == ["0000:00:00.0"] * 2 + ["0000:02:00.0"] * 2
    assert problems == ()


def test_links_are_on_hamis_scale() -> None:
    box = a_box("a", "a", "b")
    linked = (
        replace(box[0], lanes={"GPU-1": 4}),
        replace(box[1], lanes={"GPU-0": 2}),
        box[2],
    )
    cards, _ = MONITORING.cards(Readings(cards=linked), 10)
    assert cards[0].links == {"GPU-1": 250, "GPU-2": 10}
    assert cards[1].links == {"GPU-0": 250, "GPU-2": 10}


def test_a_link_that_one_side_does_not_know_counts_for_nothing_and_is_a_problem() -> None:
    box = a_box("a", "a")
    cards, problems = MONITORING.cards(
        Readings(cards=(replace(box[0], lanes={"GPU-1": 4}), box[1])), 10
    )
    assert [c.links for c in cards] == [{"GPU-1": 0}, {"GPU-0": 0}]
    assert problems == (
        "cards 0 and 1 do not agree on the NVLinks between them, which count as none: look for a "
        "broken one",
    )


@pytest.mark.parametrize(
    ("name", "model"),
    [("Tesla P4", "NVIDIA-Tesla P4"), ("NVIDIA A10", "NVIDIA A10"), ("", "")],
)
def test_models_are_spelt_as_hami_spells_them(name: str, model: str) -> None:
    assert model_of(name) == model


def test_modes_and_slots_stay() -> None:
    cards, _ = MONITORING.cards(Readings(cards=(replace(a_box("a")[0], mode="mig"),)), 7)
    assert [(c.mode, c.slots, c.cores_percent) for c in cards] == [("mig", 7, 100)]
