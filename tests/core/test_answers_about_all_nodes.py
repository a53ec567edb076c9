"""Answers that name each of thousands of nodes say what those made node by node say."""

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.explain.node_reasons import main_reason
from tessera_core.scheduling.filter_bodies import NodeNames
from tessera_schema.endpoints.extender import ExtenderFilterResult, HostPriority, encode_result
from tessera_schema.reasons import Reason

names = st.lists(st.text(max_size=9), unique=True, max_size=9)
a_result = msgspec.json.Decoder(ExtenderFilterResult).decode
scores_of = msgspec.json.Decoder(list[HostPriority]).decode


@given(names, st.data())
def test_each_node_is_refused_for_its_own_reason(nodes: list[str], data: st.DataObject) -> None:
    reasons = [data.draw(st.sampled_from(Reason)) for _ in nodes]
    codes = np.array(reasons, np.uint8)
    words = {node: reason.wire for node, reason in zip(nodes, reasons, strict=True)}
    plain = ExtenderFilterResult(node_names=(), failed_and_unresolvable_nodes=words)
    assert a_result(NodeNames(nodes).refused(codes)) == plain


@given(names)
def test_all_nodes_are_refused_for_one_reason(nodes: list[str]) -> None:
    words = dict.fromkeys(nodes, "GangWaiting")
    plain = ExtenderFilterResult(node_names=(), failed_and_unresolvable_nodes=words)
    assert a_result(NodeNames(nodes).all_refused(Reason.GANG_WAITING)) == plain


def test_one_node_is_refused_in_the_same_bytes() -> None:
    words = {"n0": "CardCordoned"}
    plain = ExtenderFilterResult(node_names=(), failed_and_unresolvable_nodes=words)
    assert NodeNames(["n0"]).all_refused(Reason.CARD_CORDONED) == encode_result(plain)


@given(names, st.data())
def test_each_node_has_its_own_score(nodes: list[str], data: st.DataObject) -> None:
    scores = [data.draw(st.integers(0, 10)) for _ in nodes]
    body = NodeNames(nodes).scored(np.array(scores, np.uint8))
    given_to = {each.host: each.score for each in scores_of(body)}
    assert given_to == dict(zip(nodes, scores, strict=True))


def codes_of(*reasons: Reason) -> np.ndarray:
    return np.array(reasons, np.uint8)


def test_the_main_reason_is_that_of_most_nodes_and_the_first_of_equals() -> None:
    memory, core = Reason.CARD_INSUFFICIENT_MEMORY, Reason.CARD_INSUFFICIENT_CORE
    assert main_reason(codes_of(core, memory, memory)) is memory
    assert main_reason(codes_of(core, memory, memory, core)) is core


def test_that_nodes_have_no_such_cards_is_the_main_reason_only_of_all() -> None:
    bare, memory = Reason.NODE_HAS_NO_CARDS, Reason.CARD_INSUFFICIENT_MEMORY
    assert main_reason(codes_of(bare, bare, memory)) is memory
    assert main_reason(codes_of(bare, bare)) is bare
    assert main_reason(codes_of()) is Reason.NODE_UNREGISTERED
