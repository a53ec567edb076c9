"""What holds for every dialect, today's and those to come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.inventory.merge import cards_of
from tessera_core.registry.registry import load
from tessera_schema.grants import Share
from tessera_schema.kube import Pod, Quantity
from tessera_schema.verdicts import PlanOutcome, Verdict
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.adding import acme
from tests.dialects.garbage import AMOUNTS

CONFIG = {n: d.example.options for n, d in load(extra=[acme]).readers.items() if d.example.options}
REGISTRY = load(CONFIG, extra=[acme])
EXAMPLES = {name: dialect.example for name, dialect in REGISTRY.dialects.items()}
NODE = a_node(
    "n1",
    annotations={k: v for e in EXAMPLES.values() for k, v in e.node_annotations.items()},
    capacity={k: v for e in EXAMPLES.values() for k, v in e.node_capacity.items()},
)
BY_EXAMPLE = [
    pytest.param(name, limits, id=f"{name}-{i}")
    for name, example in EXAMPLES.items()
    for i, limits in enumerate(example.containers)
]

CARDS = cards_of(REGISTRY, NODE, {})[0]


def pod_of(name: str, limits: Mapping[str, Quantity], **more: Any) -> Pod:
    """A pod as a user of the dialect writes it."""
    scheduler = EXAMPLES[name].scheduler_name
    return a_pod(a_container(limits, limits), uid="u", scheduler=scheduler, **more)


def placed(name: str, limits: Mapping[str, Quantity]) -> PlanOutcome:
    (outcome,) = plan([pod_of(name, limits)], [NODE], config=CONFIG, extra=[acme])
    assert outcome.verdict is Verdict.PLACED, outcome.message
    return outcome


def rewritten(outcome: PlanOutcome, **more: Any) -> Pod:
    """The pod as admission left it."""
    after, scheduler = outcome.containers["c0"], outcome.pod.spec.scheduler_name
    container = a_container(after.limits, after.requests, env=after.env)
    return a_pod(container, uid="u", scheduler=scheduler, **more)


def test_every_dialect_has_examples_that_name_its_resources() -> None:
    for name, example in EXAMPLES.items():
        assert example.containers, name
        for limits in example.containers:
            assert limits.keys() <= REGISTRY.dialects[name].resources


@pytest.mark.parametrize(("name", "limits"), BY_EXAMPLE)
def test_it_is_silent_about_other_dialects_names(name: str, limits: Mapping[str, Quantity]) -> None:
    pod, taken = pod_of(name, limits), REGISTRY.dialects[name].shared_names
    speakers = {
        d.name
        for d in REGISTRY.dialects.values()
        if d.claim(pod).fields.keys()
        - (d.shared_names - {r for r in limits if d.name == name})
        - (frozenset() if d.name == name else taken)
    }
    assert speakers <= {name}
    assert placed(name, limits).dialects == (name,)


@pytest.mark.parametrize(("name", "limits"), BY_EXAMPLE)
def test_admitting_twice_changes_nothing(name: str, limits: Mapping[str, Quantity]) -> None:
    outcome = placed(name, limits)
    again = admit(REGISTRY, rewritten(outcome))
    assert isinstance(again, AdmittedPod)
    first, second = outcome.containers["c0"], again.containers["c0"]
    assert (second.limits, second.requests) == (first.limits, first.requests)
    assert second.env.items() <= first.env.items()
    assert first.limits == first.requests


@pytest.mark.parametrize(("name", "limits"), BY_EXAMPLE)
def test_what_it_writes_it_reads_back(name: str, limits: Mapping[str, Quantity]) -> None:
    outcome = placed(name, limits)
    assert outcome.grant is not None
    notes = {k: v for k, v in outcome.annotations.items() if not k.startswith("tessera.dev/")}
    bound = rewritten(outcome, node="n1", annotations=notes)
    dialect = REGISTRY.dialects[name]
    held = dialect.recorded(bound, [c for c in CARDS if c.vendor == dialect.vendor])
    if not dialect.result_keys:
        assert (notes, held) == ({}, None), "its system writes nothing on pods"
        return
    assert held is not None
    assert held.problem == ""
    assert [_what(s) for s in held.shares] == [_what(s) for s in outcome.grant.shares]


def _what(share: Share) -> tuple[str, str, int, float]:
    return share.container, share.card, share.memory_bytes, share.cores_percent


@pytest.mark.parametrize(("name", "limits"), BY_EXAMPLE)
def test_its_result_keys_are_declared(name: str, limits: Mapping[str, Quantity]) -> None:
    keys = placed(name, limits).annotations.keys()
    asked = REGISTRY.dialects[name].admit(pod_of(name, limits))
    assert not isinstance(asked, Rejected)
    for key in keys - asked.annotations.keys():
        assert key in REGISTRY.result_keys or key.startswith(REGISTRY.result_prefixes)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_every_manifest_has_an_answer(data: st.DataObject) -> None:
    dialect = REGISTRY.dialects[data.draw(st.sampled_from(sorted(EXAMPLES)))]
    names = st.sampled_from(sorted(dialect.resources))
    containers = [
        a_container(
            data.draw(st.dictionaries(names, AMOUNTS, max_size=4)),
            data.draw(st.dictionaries(names, AMOUNTS, max_size=4)),
        )
        for _ in range(3)
    ]
    answer = admit(REGISTRY, a_pod(*containers[:2], init=(containers[2],)))
    if isinstance(answer, Rejected):
        assert answer.field
        assert answer.remedy
    elif answer is not None:
        assert all(r.count > 0 for c in answer.request.containers for r in c.requests)
