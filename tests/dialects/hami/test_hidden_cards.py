"""Cards that HAMi's file for nodes hides (`filterdevices`)."""

from __future__ import annotations

import pytest

from tessera_core.registry.registry import load
from tessera_runtime.node_settings import parse_node_settings
from tessera_testing.builders import a_card, a_node

REGISTRY = load()
FILE = '{"nodeconfig": [{"name": "n1", "filterdevices": {"uuid": [], "index": [0]}}]}'


@pytest.mark.parametrize(
    ("index", "hidden"), [pytest.param(10, False, id="MAT-15"), pytest.param(0, True, id="MAT-16")]
)
def test_a_card_is_hidden_by_its_index_alone(index: int, *, hidden: bool) -> None:
    """Indexes are numbers here: the text of MAT-15 is an index that the list does not have."""
    settings = parse_node_settings(REGISTRY, {"config.json": FILE}).on(a_node("n1"), "nvidia")
    (card,) = settings.applied_to([a_card("GPU-x", index, vendor="nvidia")])
    assert card.hidden is hidden
