"""What a refused pod shows in one sentence is true of the nodes as they are."""

from tessera_core.explain.refusals import WaitingPodMessages
from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import load
from tessera_schema.kube import Pod, Quantity
from tessera_schema.reasons import Reason
from tessera_testing.builders import a_card, a_container, a_pod

MEMORY = Reason.CARD_INSUFFICIENT_MEMORY


def a_cluster(**mib: int) -> tuple[Ledger, WaitingPodMessages]:
    ledger = Ledger()
    for node, each in mib.items():
        ledger.put_node(node, [a_card(f"{node}-0", 0, vendor="nvidia", mib=each)])
    return ledger, WaitingPodMessages(load(), ledger)


def asking(mib: int, cards: int = 1) -> Pod:
    limits: dict[str, Quantity] = {"nvidia.com/gpu": cards, "nvidia.com/gpumem": mib}
    return a_pod(a_container(limits=limits))


def test_a_pod_that_is_too_large_reads_how_large_the_largest_card_is_now() -> None:
    ledger, messages = a_cluster(n0=16384, n1=8192)
    assert "largest: 16384 MiB" in messages.sentence(asking(90000), MEMORY)
    ledger.put_node("n2", [a_card("n2-0", 0, vendor="nvidia", mib=40960)])
    assert "largest: 40960 MiB" in messages.sentence(asking(90000), MEMORY)
    ledger.remove_node("n2")
    assert "largest: 16384 MiB" in messages.sentence(asking(90000), MEMORY)


def test_cards_of_a_node_that_is_blocked_count_for_nothing() -> None:
    ledger, messages = a_cluster(n0=16384, n1=8192)
    assert messages.sentence(asking(12000), MEMORY) == "CardInsufficientMemory on most nodes"
    ledger.block_node("n0", "strange", 0)
    assert "largest: 8192 MiB" in messages.sentence(asking(12000), MEMORY)
    ledger.ended("strange")
    assert messages.sentence(asking(12000), MEMORY) == "CardInsufficientMemory on most nodes"


def test_pods_of_two_shapes_read_sentences_of_their_own() -> None:
    _, messages = a_cluster(n0=16384)
    for _ in range(2):
        assert "at most nvidia.com/gpumem: 16384" in messages.sentence(asking(90000), MEMORY)
        assert "16384" not in messages.sentence(asking(1000, cards=2), MEMORY)
