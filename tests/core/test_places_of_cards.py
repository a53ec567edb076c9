"""Where the cards of an id are is known whenever it is read first, and ever after."""

import pytest

from tessera_core.fleet.fleet import Fleet
from tessera_testing.builders import a_card


@pytest.mark.parametrize("read", [True, False])
def test_places_are_those_of_the_nodes_that_there_are(*, read: bool) -> None:
    fleet = Fleet()
    fleet.put("n0", [a_card("x", 0), a_card("y", 1)])
    if read:
        assert fleet.places("x") == [(fleet.rows["n0"], 0)]
    fleet.put("n1", [a_card("x", 0)])
    fleet.put("n0", [a_card("z", 0), a_card("x", 1)])
    assert sorted(fleet.places("x")) == sorted([(fleet.rows["n0"], 1), (fleet.rows["n1"], 0)])
    assert not fleet.places("y")
    fleet.remove("n1")
    assert fleet.places("x") == [(fleet.rows["n0"], 1)]
