"""The demo's own decision: what was seen decides, and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tessera_demo import promises
from tessera_demo.observations import Observations
from tessera_demo.promises import Evidence, Inside, Promise
from tessera_demo.scenario import Scenario, name_of
from tessera_demo.screens.pod_table import requested_amounts
from tessera_embedded.collector import Collected
from tessera_schema.cards import MIB
from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant
from tessera_schema.messages.device_reports import CardUse, ContainerUse, NodeUsage, encode

CARD = "GPU-1"


def a_grant(name: str = "p", *dialects: str, mib: int = 1024, cores: float = 50) -> Grant:
    shares = tuple(
        Share(
            container="c", position=i, vendor="acme", dialect=dialect, card=CARD, index=0,
            memory_bytes=mib * MIB, cores_percent=cores,
        )
        for i, dialect in enumerate(dialects or ("one",))
    )  # fmt: skip
    return Grant(uid=f"uid-{name}", namespace="n", name=name, node="n1", shares=shares)


def a_pod(grant: Grant, *, running: bool = True) -> dict[str, Any]:
    state = {"running": {}} if running else {"waiting": {"reason": "ContainerCreating"}}
    return {
        "metadata": {
            "namespace": "n", "name": grant.name, "uid": grant.uid,
            "annotations": {GRANT_KEY: encode_grant(grant)},
        },
        "status": {"phase": "Running", "containerStatuses": [{"name": "c", "state": state}]},
    }  # fmt: skip


def evidence(*grants: Grant, **more: Any) -> Evidence:
    seen = Observations()
    for grant in grants:
        seen.pods[f"n/{grant.name}"] = a_pod(grant)
    scene = Scenario(nodes=(), quotas=(), first_pods=tuple(a_pod(g) for g in grants))
    inside = {(g.uid, "c"): Inside() for g in grants}
    facts = {
        "explained": {},
        "hooked": {"acme"},
        "inside": inside,
        "traced": "",
        "trace": (),
        **more,
    }
    return Evidence(scene=scene, seen=seen, **facts)


def promise(found: Evidence, text: str) -> Promise:
    (one,) = (p for p in promises.check_promises(found) if text in p.text)
    return one


def use(seen: Observations, grant: Grant, cores: float, times: int = 2) -> None:
    card = CardUse(card=CARD, memory_bytes=512 * MIB, cores_percent=cores)
    held = ContainerUse(namespace="n", pod=grant.name, uid=grant.uid, container="c", cards=(card,))
    reported = NodeUsage(node="n1", vendor="acme", at=0, interval_s=2, containers=(held,))
    for _ in range(times):
        seen.on_message("tessera.v1.demo.usage.n1", "", encode(reported))


def test_two_dialects_on_a_card_are_found() -> None:
    assert not promises.shared({"p": a_grant("p")}).kept
    assert promises.shared({"p": a_grant("p"), "q": a_grant("q", "two")}).kept


def test_a_pod_whose_container_does_not_run_does_not_run() -> None:
    grant = a_grant()
    found = evidence(grant)
    found.seen.pods["n/p"] = a_pod(grant, running=False)
    assert not promise(found, "n/p runs").kept


@pytest.mark.parametrize(
    ("total", "result", "kept"), [(1024, 2, True), (1024, 0, False), (2048, 2, False)]
)
def test_what_the_process_saw_decides(total: int, result: int, kept: bool) -> None:  # noqa: FBT001  (a parameter of the table)
    line = {"event": "card", "index": 0, "total_mib": total, "over_result": result}
    found = evidence(a_grant(), inside={("uid-p", "c"): Inside(lines=[line])})
    both = [
        p for p in promises.check_promises(found) if "sees" in p.text or "out-of-memory" in p.text
    ]
    assert len(both) == 2
    assert all(p.kept for p in both) is kept


@pytest.mark.parametrize(
    ("cores", "kept"), [(49.0, True), (54.0, True), (70.0, False), (0.0, False)]
)
def test_a_busy_container_must_be_observed_within_its_cores(cores: float, kept: bool) -> None:  # noqa: FBT001  (a parameter of the table)
    grant = a_grant()
    found = evidence(grant)
    use(found.seen, grant, cores)
    assert promise(found, "held to 50 %").kept is kept


@pytest.mark.parametrize(
    ("inside", "but"),
    [
        ({}, "nothing was seen of it"),
        ({("uid-p", "c"): Inside(unlike="it runs without the hook")}, "it runs without the hook"),
    ],
)
def test_a_container_without_evidence_breaks_its_promises(
    inside: dict[tuple[str, str], Inside], but: str
) -> None:
    found = evidence(a_grant(), inside=inside)
    held = promise(found, "n/p c is held by the hook")
    assert (held.kept, held.measured) == (False, but)
    assert not promise(found, "n/p c sees 1024 MiB").kept
    assert not promise(found, "out-of-memory").kept


def test_containers_of_vendors_without_the_hook_promise_nothing_of_it() -> None:
    found = evidence(a_grant(), hooked={"another"})
    assert not [p for p in promises.check_promises(found) if p.text.startswith("n/p c ")]


def test_a_pod_that_runs_without_a_grant_does_not_run_as_promised() -> None:
    found = evidence(a_grant())
    del found.seen.pods["n/p"]["metadata"]["annotations"][GRANT_KEY]
    (runs,) = (p for p in promises.check_promises(found) if p.text == "n/p runs")
    assert not runs.kept
    assert "no grant" in runs.measured


def test_a_pod_is_measured_enough_after_some_intervals() -> None:
    grant = a_grant()
    found = evidence(grant)
    use(found.seen, grant, 40, times=promises.INTERVALS - 1)
    assert not promises.enough(found.seen, "n/p")
    use(found.seen, grant, 40, times=1)
    assert promises.enough(found.seen, "n/p")


def spans(count: int, *, processes: int) -> list[Collected]:
    return [
        Collected(
            trace="t", id=str(i), parent=str(i - 1) if i else "", name=f"span {i}", service="s",
            process=i % processes, start_ns=i * 1_000_000, end_ns=(i + 1) * 1_000_000,
            attributes={},
        )
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "processes", "kept"), [(7, 2, True), (6, 2, False), (7, 1, False)]
)
def test_a_trace_needs_spans_of_several_processes(count: int, processes: int, kept: bool) -> None:  # noqa: FBT001  (a parameter of the table)
    found = evidence(a_grant(), trace=spans(count, processes=processes))
    assert promise(found, "one trace").kept is kept


def test_the_wire_form_of_a_pod_is_what_is_evaluated() -> None:
    grant = a_grant()
    assert promises.grants(evidence(grant).seen) == {"n/p": grant}
    assert msgspec.json.decode(encode_grant(grant))["uid"] == "uid-p"


def test_what_a_user_reads_is_the_refusal_and_not_the_request() -> None:
    found = evidence(a_grant())
    (pod,) = found.scene.pods
    words = 'POST /api/v1/pods: admission webhook "x" denied the request: limits: 150: write 100'
    found.seen.refused[name_of(pod)] = words
    assert promises.words_of(found, name_of(pod)) == "limits: 150: write 100"


def test_what_was_requested_is_displayed_in_its_own_words() -> None:
    container = {"resources": {"limits": {"cpu": 1, "a.dev/gpu": 1, "a.dev/mem": "3000"}}}
    pod = {"metadata": {}, "spec": {"containers": [container, container]}}
    assert requested_amounts(pod, ()) == "a.dev/gpu: 1, a.dev/mem: 3000"


def test_annotations_by_which_a_pod_requests_cards_are_displayed_and_no_others() -> None:
    notes = {"gpu-part": "0.5", "owner": "nobody"}
    pod = {"metadata": {"annotations": notes}, "spec": {"containers": [{}]}}
    assert requested_amounts(pod, {"gpu-part", "gpu-whole"}) == "gpu-part: 0.5"
