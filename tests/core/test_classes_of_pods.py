"""A pod's class: what its owner writes, what a dialect reads from its words, and what follows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.fleet.charges import charge_of
from tessera_core.registry.registry import load
from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share, decode_grant, encode_grant
from tessera_schema.kube import Pod
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_schema.verdicts import PlanOutcome
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.koordinator.spoken import HALF, a_koord_pod

CLASS = "tessera.dev/class"
CARDS = (a_card("GPU-0", 0, mib=24_576, vendor="nvidia"),)
NODE = a_node(
    annotations={f"{CARDS_PREFIX}nvidia": encode_node_cards(NodeCardsAnnotation(cards=CARDS))}
)
HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "60"}


def a_hami_pod(name: str, class_: str = "", **more: str) -> Pod:
    annotations = {CLASS: class_} if class_ else {}
    return a_pod(a_container(limits=HAMI | more), name=name, annotations=annotations)


def refused(pod: Pod, **options: dict[str, Any]) -> Rejected:
    answer = admit(load(options), pod)
    assert isinstance(answer, Rejected)
    return answer


def admitted(pod: Pod, **options: dict[str, Any]) -> AdmittedPod:
    answer = admit(load(options), pod)
    assert isinstance(answer, AdmittedPod)
    return answer


def is_best_effort(pod: Pod, **options: dict[str, Any]) -> bool:
    found = {r.best_effort for c in admitted(pod, **options).request.containers for r in c.requests}
    assert len(found) == 1
    return found.pop()


def test_a_best_effort_pod_is_granted_memory_and_no_cores() -> None:
    (outcome,) = plan([a_hami_pod("rest", "best-effort")], [NODE])
    (share,) = shares_of(outcome)
    assert (share.memory_bytes, share.cores_percent, share.best_effort) == (4000 * MIB, 0, True)
    assert charge_of(share).cores_milli == 0


def test_it_finds_room_where_all_cores_are_granted() -> None:
    owners = [a_hami_pod(f"owner-{i}", **{"nvidia.com/gpucores": "50"}) for i in range(2)]
    plain, rest = (
        a_hami_pod("plain", **{"nvidia.com/gpucores": "0"}),
        a_hami_pod("r", "best-effort"),
    )
    *full, without, last = plan([*owners, plain, rest], [NODE])
    assert all(shares_of(owner) for owner in full)
    assert without.grant is None
    assert shares_of(last)


def shares_of(outcome: PlanOutcome) -> tuple[Share, ...]:
    assert outcome.grant is not None
    return outcome.grant.shares


@pytest.mark.parametrize("class_", ["", "burstable", "guaranteed"])
def test_other_classes_have_their_cores(class_: str) -> None:
    (outcome,) = plan([a_hami_pod("own", class_)], [NODE])
    (share,) = shares_of(outcome)
    assert (share.cores_percent, share.best_effort) == (60, UNSET)


def test_a_word_that_is_none_is_refused_with_all_words() -> None:
    answer = refused(a_hami_pod("odd", "precious"))
    assert (answer.field, answer.value) == (f"metadata.annotations[{CLASS}]", "precious")
    assert "guaranteed, burstable or best-effort" in answer.remedy


def test_what_others_leave_is_lent_so_it_must_be_lent_to() -> None:
    pod = a_hami_pod("odd", "best-effort")
    notes = {**pod.metadata.annotations, "tessera.dev/lending": "false"}
    answer = refused(replace(pod, metadata=replace(pod.metadata, annotations=notes)))
    assert (answer.field, answer.value) == (
        f"metadata.annotations[{CLASS}]", "best-effort with tessera.dev/lending: false",
    )  # fmt: skip
    assert "leave tessera.dev/lending out" in answer.remedy


def test_nothing_is_left_on_a_card_of_its_own() -> None:
    limits = {"volcano.sh/gpu-number": "1"}
    pod = a_pod(a_container(limits=limits), annotations={CLASS: "best-effort"})
    assert "ask for a part of a card's memory" in refused(pod, volcano={}).remedy


def test_nothing_takes_time_back_where_the_hook_is_not() -> None:
    limits = {"iluvatar.ai/vgpu": "1", "iluvatar.ai/vcuda-memory": "64"}
    pod = a_pod(a_container(limits=limits), annotations={CLASS: "best-effort"})
    answer = refused(pod, iluvatar={})
    assert answer.value == "best-effort on cards of iluvatar"


# -- what dialects read


@pytest.mark.parametrize(
    ("class_name", "label", "priority", "best_effort"),
    [
        ("koord-batch", "", None, True),
        ("koord-free", "", None, True),
        ("koord-mid", "", None, False),
        ("koord-prod", "", None, False),
        ("", "koord-batch", None, True),
        ("koord-batch", "koord-prod", None, False),
        ("own", "", 5500, True),
        ("own", "", 7500, False),
        ("own", "", 0, False),
        ("", "", None, False),
    ],
)
def test_koordinators_batch_pods(
    class_name: str, label: str, priority: int | None, *, best_effort: bool
) -> None:
    assert is_best_effort(koord(class_name, label, priority)) is best_effort


def koord(class_name: str = "", label: str = "", priority: int | None = None) -> Pod:
    pod = a_koord_pod(HALF)
    labels = {"koordinator.sh/priority-class": label} if label else {}
    spec = replace(pod.spec, priority_class_name=class_name, priority=priority)
    return replace(pod, metadata=replace(pod.metadata, labels=labels), spec=spec)


def test_koordinators_mid_pods_where_an_operator_says_so() -> None:
    options = {"best_effort_priorities": ["koord-mid"]}
    assert is_best_effort(koord("koord-mid"), koordinator=options)
    assert not is_best_effort(koord("koord-batch"), koordinator=options)


def test_what_is_read_is_said_and_what_is_written_goes_before_it() -> None:
    pod = koord("koord-batch")
    (warning,) = (w for w in admitted(pod).warnings if "best-effort" in w)
    assert "priority class koord-batch: class best-effort" in warning
    assert "tessera.dev/class: burstable" in warning
    written = replace(pod, metadata=replace(pod.metadata, annotations={CLASS: "burstable"}))
    assert not is_best_effort(written)


def test_what_is_read_refuses_nothing() -> None:
    pod = koord("koord-batch")
    notes = {"tessera.dev/lending": "false"}
    assert not is_best_effort(replace(pod, metadata=replace(pod.metadata, annotations=notes)))


@pytest.mark.parametrize(
    ("said", "on", "best_effort"),
    [("true", True, True), ("false", True, False), ("", True, False), ("true", False, False)],
)
def test_volcanos_preemptable_pods(said: str, *, on: bool, best_effort: bool) -> None:
    pod = a_pod(
        a_container(limits={"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}),
        annotations={"volcano.sh/preemptable": said} if said else {},
    )
    options = {"preemptable_is_best_effort": on}
    assert is_best_effort(pod, volcano=options) is best_effort


@pytest.mark.parametrize(
    ("label", "class_name", "priority", "on", "best_effort"),
    [
        ("preemptible", "", None, True, True),
        ("non-preemptible", "train", 50, True, False),
        ("", "train", 50, True, True),
        ("", "build", 100, True, False),
        ("", "", 0, True, False),
        ("preemptible", "train", 50, False, False),
    ],
)
def test_kais_preemptible_pods(
    label: str, class_name: str, priority: int | None, *, on: bool, best_effort: bool
) -> None:
    pod = a_pod(a_container(), annotations={"gpu-fraction": "0.5"})
    spec = replace(
        pod.spec, scheduler_name="kai-scheduler", priority_class_name=class_name, priority=priority
    )
    labels = {"kai.scheduler/preemptibility": label} if label else {}
    pod = replace(pod, metadata=replace(pod.metadata, labels=labels), spec=spec)
    assert is_best_effort(pod, kai={"preemptible_is_best_effort": on}) is best_effort


# -- the wire


def test_a_grant_says_it_and_is_as_before_where_there_is_nothing_to_say() -> None:
    share = Share(
        container="main", position=0, vendor="nvidia", dialect="hami", card="GPU-0", index=0,
        memory_bytes=MIB,
    )  # fmt: skip
    grant = Grant(uid="u", namespace="n", name="p", node="w", shares=(share,))
    assert "best_effort" not in encode_grant(grant)
    rest = replace(grant, shares=(replace(share, best_effort=True),))
    assert decode_grant(encode_grant(rest)) == rest
