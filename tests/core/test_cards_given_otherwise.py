"""What a vendor's plugin gave a container is compared with what its pod was granted."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import DeviceEvidence
from tessera_core.node.device_mismatch import device_mismatch
from tessera_core.registry.registry import load
from tessera_schema.grants import Share
from tessera_testing.builders import a_card

CARDS = {f"IX-{i}": a_card(f"IX-{i}", i, minor=i + 4) for i in range(3)}
SHOWS = DeviceEvidence(variables=("SEEN", "ALSO_SEEN"), device="/dev/ix")


def a_share(card: int) -> Share:
    return Share(
        container="c", position=0, vendor="acme", dialect="acme", card=f"IX-{card}", index=card,
        memory_bytes=1,
    )  # fmt: skip


def reported(env: dict[str, str], *devices: str, granted: tuple[int, ...] = (1,)) -> str:
    shares = [a_share(card) for card in granted]
    return device_mismatch(SHOWS, shares, CARDS, env, devices)


@pytest.mark.parametrize("text", ["1", "IX-1", " 1 ", "1,IX-1"])
def test_the_same_card_by_number_or_id_is_no_matter(text: str) -> None:
    assert reported({"SEEN": text, "OTHER": "0"}, "/dev/ix5", "/dev/ixctl", "/dev/null") == ""


@pytest.mark.parametrize("text", ["", "all", "ALL", "none", "void"])
def test_words_that_an_image_brings_name_no_card(text: str) -> None:
    assert reported({"SEEN": text}) == ""


def test_nothing_to_be_observed_is_no_matter() -> None:
    assert reported({}) == ""
    assert device_mismatch(DeviceEvidence(), [a_share(1)], CARDS, {"SEEN": "0"}, ["/dev/ix4"]) == ""


def test_another_card_is_reported_with_both() -> None:
    assert (
        reported({"SEEN": "0"}) == "it was granted card 1 (IX-1), and SEEN=0 gives it card 0 (IX-0)"
    )
    assert reported({"SEEN": "1", "ALSO_SEEN": "2"}) == (
        "it was granted card 1 (IX-1), and ALSO_SEEN=2 gives it card 2 (IX-2)"
    )


def test_more_or_fewer_cards_are_others() -> None:
    assert "gives it card 0 (IX-0) and card 1 (IX-1)" in reported({"SEEN": "1,0"})
    assert reported({"SEEN": "1,0"}, granted=(0, 1)) == ""
    assert "granted card 0 (IX-0) and card 1 (IX-1), and" in reported({"SEEN": "0"}, granted=(0, 1))


def test_a_card_that_is_not_on_the_node_is_another() -> None:
    assert reported({"SEEN": "7"}).endswith("SEEN=7 gives it 7")
    assert reported({}, "/dev/ix9").endswith("/dev/ix9 gives it /dev/ix9")


def test_device_nodes_go_by_minor_numbers() -> None:
    assert reported({}, "/dev/ix5") == ""
    assert reported({}, "/dev/ix4") == (
        "it was granted card 1 (IX-1), and /dev/ix4 gives it card 0 (IX-0)"
    )


def test_each_vendor_that_allocates_says_where_its_cards_show() -> None:
    for vendor in load().vendors.values():
        assert bool(vendor.device_evidence.variables) is vendor.own_plugin_allocates, vendor.name
