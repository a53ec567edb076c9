"""The file next to this one is all that a new dialect takes: no edit anywhere else."""

import pytest

from tessera_core.registry.registry import BadConfiguration, load
from tessera_schema.kube import Pod
from tessera_schema.verdicts import PlanOutcome, Verdict
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.adding import acme

NODE = a_node("n1", annotations={"acme.com/cards": "A0:16,A1:16"})


def planned(*pods: Pod, bound: tuple[Pod, ...] = ()) -> list[PlanOutcome]:
    return plan(pods, [NODE], bound=bound, extra=[acme])


GOLDEN = [
    pytest.param({"acme.com/card": 1}, [("A0", 16384)], id="a card alone is a whole card"),
    pytest.param({"acme.com/gib": 4}, [("A0", 4096)], id="memory alone is one card"),
    pytest.param(
        {"acme.com/card": 2, "acme.com/gib": 4}, [("A0", 4096), ("A1", 4096)], id="two cards"
    ),
]


@pytest.mark.parametrize(("limits", "cards"), GOLDEN)
def test_it_places(limits: dict[str, int | str | float], cards: list[tuple[str, int]]) -> None:
    (outcome,) = planned(a_pod(a_container(limits)))
    assert outcome.verdict is Verdict.PLACED
    assert outcome.grant is not None
    assert [(s.card, s.memory_mib) for s in outcome.grant.shares] == cards
    ids = ",".join(card for card, _ in cards)
    assert outcome.annotations["acme.com/given"] == f"c0={ids}"
    assert outcome.injections["c0"].env == {"ACME_CARDS": ids}


def test_its_memory_alone_gets_a_count_at_admission() -> None:
    (outcome,) = planned(a_pod(a_container({"acme.com/gib": 4})))
    assert outcome.containers["c0"].limits == {"acme.com/gib": "4", "acme.com/card": "1"}


def test_bound_pods_are_read_back_from_what_it_wrote() -> None:
    pods = [a_pod(a_container({"acme.com/gib": 12}), name=f"p{i}") for i in range(3)]
    first = planned(*pods)
    assert [o.verdict for o in first] == ["placed", "placed", "waiting"]
    bound = tuple(
        a_pod(
            a_container({"acme.com/gib": 12}), name=o.pod.metadata.name, node=o.node,
            annotations={"acme.com/given": o.annotations["acme.com/given"]},
        )
        for o in first[:2]
    )  # fmt: skip
    (again,) = planned(pods[2], bound=bound)
    assert again.verdict is Verdict.WAITING
    assert again.reasons[0].message == (
        "2/2 CardInsufficientMemory: c0 asks 12288 MiB of a card, the freest of these has "
        "4096 MiB of 16384 MiB"
    )


def test_bad_amounts_are_reported_with_field_value_and_remedy() -> None:
    (outcome,) = planned(a_pod(a_container({"acme.com/gib": "1.5"})))
    assert outcome.verdict is Verdict.REJECTED
    assert outcome.message == (
        "spec.containers[0].resources.limits[acme.com/gib]: 1.5: "
        "write a whole number such as 2. It counts GiB."
    )


def test_two_owners_of_one_resource_name_are_refused() -> None:
    class Twin:
        __name__ = "x.twin"
        Options = acme.Options
        dialect = staticmethod(acme.dialect)

    with pytest.raises(BadConfiguration, match=r"acme.com/card belongs to both"):
        load(extra=[acme, Twin])  # type: ignore[list-item]  # a stand-in for a module


def test_unknown_dialects_and_options_are_named() -> None:
    with pytest.raises(BadConfiguration, match=r"dialects\.acne: no such dialect"):
        load({"acne": {}}, extra=[acme])
    with pytest.raises(BadConfiguration, match=r"dialects\.acme: .*unit_byte"):
        load({"acme": {"unit_byte": 1}}, extra=[acme])


def test_a_dialect_that_is_switched_off_ignores_its_pods() -> None:
    outcome = plan([a_pod(a_container({"acme.com/card": 1}))], [NODE],
                   extra=[acme], config={"acme": {"enabled": False}})[0]  # fmt: skip
    assert outcome.verdict is Verdict.IGNORED
