"""What a manifest becomes, and which manifests can never run (ADM-M, REQ-M, PRB-05, PRB-06)."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import Claim
from tessera_schema.kube import Container, Pod, Quantity
from tessera_schema.reasons import Reason
from tessera_testing.builders import a_container, a_pod
from tests.dialects.mthreads.setting import (
    CORE,
    GPU,
    MEM,
    SEVERAL,
    a_slice,
    accepted,
    changed,
    made,
    named,
    needs,
    rejected,
    the_request,
)

Amounts = dict[str, Quantity]
MIB = 1 << 20


def a_pod_with(limits: Amounts | None = None, requests: Amounts | None = None) -> Pod:
    return a_pod(a_container(named(**(limits or {})), named(**(requests or {}))))


@pytest.mark.parametrize(
    ("limits", "requests", "after"),
    [
        pytest.param({"gpu": 2, "mem": 2, "core": 1}, {}, (2, 192, 32), id="ADM-M01"),
        pytest.param({}, {"gpu": 2}, (2, 192, 32), id="ADM-M03"),
        pytest.param({}, {"gpu": 1}, (1, 96, 16), id="ADM-M04"),
        pytest.param({"gpu": 1, "core": 1}, {}, (1, 96, 16), id="ADM-M06"),
        pytest.param({"gpu": 2, "mem": 2, "core": 1}, {}, (2, 192, 32), id="PRB-05"),
        pytest.param({"gpu": 1, "core": 4}, {}, (1, 96, 16), id="PRB-06"),
        pytest.param({"gpu": 1}, {}, (1, 96, 16), id="a-whole-card"),
        pytest.param({"gpu": "1k"}, {}, (1000, 96000, 16000), id="quantities-with-suffixes"),
        pytest.param({"gpu": 1, "core": 99}, {}, (1, 96, 16), id="cores-in-vain"),
        pytest.param({"gpu": 1, "mem": 32, "core": 8}, {}, (1, 32, 8), id="the-seed"),
        pytest.param({"gpu": 1, "mem": 32}, {}, (1, 32, None), id="no-cores"),
        pytest.param({"gpu": 1}, {"gpu": 1, "mem": 32}, (1, 32, None), id="memory-in-requests"),
    ],
)
def test_limits_and_requests_say_the_same_after_admission(
    limits: Amounts, requests: Amounts, after: tuple[int, int, int | None]
) -> None:
    (container,) = changed(a_pod_with(limits, requests)).spec.containers
    for amounts in (container.resources.limits, container.resources.requests):
        texts = {name: str(amount) for name, amount in amounts.items()}
        read = tuple(
            None if n not in texts else int(texts[n].replace("k", "000")) for n in (GPU, MEM, CORE)
        )
        assert read == after


@pytest.mark.parametrize(
    ("limits", "amounts"),
    [
        # count, MiB, percent of memory, percent of cores, exclusive
        pytest.param({"gpu": 2, "mem": 2, "core": 1}, (2, 0, 100, 100, True), id="PRB-05"),
        pytest.param({"gpu": 1, "core": 4}, (1, 0, 100, 100, True), id="PRB-06"),
        pytest.param({"gpu": 1}, (1, 0, 100, 100, True), id="REQ-M03"),
        pytest.param({"gpu": 1, "mem": 32, "core": 1}, (1, 16384, 0, 6.25, False), id="REQ-M01"),
        pytest.param({"gpu": 1, "mem": 2}, (1, 1024, 0, 0, False), id="no-promise-of-cores"),
        pytest.param({"gpu": 1, "mem": 2, "core": 0}, (1, 1024, 0, 0, False), id="cores-0"),
        pytest.param({"gpu": 1, "mem": 2, "core": 15}, (1, 1024, 0, 93.75, False), id="15-of-16"),
        pytest.param({"gpu": 1, "mem": 96, "core": 8}, (1, 49152, 0, 50, False), id="most-memory"),
        pytest.param({"gpu": 1, "mem": 96, "core": 16}, (1, 0, 100, 100, True), id="spelled-out"),
    ],
)
def test_requests_are_per_card_in_canonical_units(
    limits: Amounts, amounts: tuple[int, int, int, float, bool]
) -> None:
    r = the_request(a_pod_with(limits))
    assert (
        r.count, r.memory_bytes // MIB, r.memory_percent, r.cores_percent, r.exclusive
    ) == amounts  # fmt: skip
    assert r.owns_whole_cores


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"gpu": 1}, id="one-card"),
        pytest.param({"gpu": 3}, id="three-cards"),
        pytest.param({"gpu": 1, "core": 4}, id="cores-in-vain"),
        pytest.param({"gpu": 1, "mem": 8, "core": 4}, id="a-part"),
    ],
)
def test_admitting_the_changed_pod_changes_nothing(limits: Amounts) -> None:
    once = changed(a_pod_with(limits))
    again = accepted(once)
    assert again.changes == {}
    assert again.warnings == ()
    assert again.containers == accepted(a_pod_with(limits)).containers


def test_several_cards_are_announced_to_the_toolkit() -> None:
    assert accepted(a_pod(needs(gpu=2))).annotations == {SEVERAL: "2"}  # PRB-05
    assert accepted(a_pod(needs(gpu=1))).annotations == {}


def test_amounts_given_in_vain_are_reported() -> None:
    (cores,) = accepted(a_pod(needs(gpu=1, core=4))).warnings
    assert CORE in cores
    assert "4 becomes 16" in cores
    memory, cores = accepted(a_pod(needs(gpu=2, mem=2, core=1))).warnings
    assert "2 becomes 192" in memory
    assert "1 becomes 32" in cores


@pytest.mark.parametrize(
    ("limits", "field", "value"),
    [
        pytest.param({"gpu": 1, "mem": 3, "core": 1}, MEM, "3", id="ADM-M08"),
        pytest.param({"gpu": -1, "mem": 2, "core": 1}, GPU, "-1", id="ADM-M10"),
        pytest.param({"mem": 2, "core": 1}, MEM, "2", id="ADM-M05"),
        pytest.param({"core": 1}, CORE, "1", id="cores-without-a-count"),
        pytest.param({"gpu": 1, "mem": 1000, "core": 1}, MEM, "1000", id="REQ-M01-as-written"),
        pytest.param({"gpu": 0, "mem": 1000, "core": 1}, GPU, "0", id="REQ-M04"),
        pytest.param({"gpu": -1, "mem": 1000, "core": 1}, GPU, "-1", id="REQ-M05"),
        pytest.param({"gpu": 4294967296, "mem": 1000}, GPU, "4294967296", id="REQ-M06"),
        pytest.param({"gpu": 1, "mem": "16Gi", "core": 1}, MEM, "16Gi", id="REQ-M07"),
        pytest.param({"gpu": 1, "mem": 4194304}, MEM, "4194304", id="memory-beyond-32-bits"),
        pytest.param({"gpu": 1, "mem": 0}, MEM, "0", id="memory-0"),
        pytest.param({"gpu": 1, "mem": 2, "core": 17}, CORE, "17", id="more-cores-than-a-card"),
        pytest.param({"gpu": 1, "mem": 2, "core": "500m"}, CORE, "500m", id="half-a-core"),
        pytest.param({"gpu": "one"}, GPU, "one", id="a-word"),
        pytest.param({"gpu": 2, "mem": -2}, MEM, "-2", id="negative-though-in-vain"),
        pytest.param({"gpu": 1.5}, GPU, "1.5", id="one-and-a-half"),
    ],
)
def test_what_can_never_run_is_refused_by_field_value_and_remedy(
    limits: Amounts, field: str, value: str
) -> None:
    answer = rejected(a_pod_with(limits))
    assert answer.field == f"spec.containers[0].resources.limits[{field}]"
    assert answer.value == value
    assert answer.remedy


def test_memory_without_a_count_is_given_what_to_add() -> None:
    assert f"add {GPU}: 1" in rejected(a_pod(needs(mem=2))).remedy


def test_zero_of_memory_and_cores_without_a_count_requests_nothing() -> None:
    assert accepted(a_pod(needs(mem=0, core=0))).containers == ()


def test_containers_that_request_nothing_are_left_alone() -> None:
    answer = accepted(a_pod(a_container({"cpu": 1}), a_slice()))
    assert [c.position for c in answer.containers] == [1]
    assert set(answer.changes) == {"c1"}  # requests are filled in


@pytest.mark.parametrize(
    ("containers", "field", "reason"),
    [
        pytest.param(
            [needs(gpu=2), needs(gpu=1, mem=2, core=2)], GPU,
            Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE, id="PRB-13",
        ),
        pytest.param(
            [needs(gpu=1, mem=2, core=2), needs(gpu=2)], GPU,
            Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE, id="several-cards-last",
        ),
        pytest.param(
            [needs(gpu=1), needs(gpu=1)], GPU, Reason.CARD_INSUFFICIENT_CORE, id="two-whole-cards"
        ),
        pytest.param(
            [needs(gpu=1, mem=2), needs(gpu=1)], GPU, Reason.CARD_INSUFFICIENT_CORE,
            id="a-whole-card-beside-a-part",
        ),
        pytest.param(
            [a_slice(core=12), a_slice(core=5)], CORE, Reason.CARD_INSUFFICIENT_CORE,
            id="17-cores-together",
        ),
    ],
)  # fmt: skip
def test_containers_that_never_fit_on_one_card_are_refused(
    containers: list[Container], field: str, reason: Reason
) -> None:
    answer = rejected(a_pod(*containers))
    assert field in answer.field
    assert "share one Mthreads card" in answer.remedy
    assert answer.reason is reason


def test_init_containers_may_each_have_the_whole_card() -> None:
    pod = a_pod(a_slice(), init=(needs(gpu=1), needs(gpu=1)))
    assert [c.position for c in accepted(pod).containers] == [0, 1, 2]


def test_an_init_container_with_several_cards_must_be_the_only_one_of_them() -> None:
    assert len(accepted(a_pod(a_slice(), init=(needs(gpu=2),))).containers) == 2
    rejected(a_pod(a_slice(), init=(needs(gpu=2), a_slice())))


def test_a_sidecar_counts_with_the_app_containers() -> None:
    sidecar = a_container(named(gpu=1), sidecar=True)
    assert rejected(a_pod(a_slice(), init=(sidecar,))).reason is Reason.CARD_INSUFFICIENT_CORE


def test_annotations_choose_cards() -> None:
    notes = {"mthreads.ai/use-gpuuuid": " a, b,,", "mthreads.ai/nouse-gpuuuid": "b"}
    (container,) = accepted(a_pod(a_slice(), annotations=notes)).containers
    assert container.requests[0].ids == ("a", "b")
    assert container.requests[0].ids_denied == ("b",)


def test_names_can_be_configured() -> None:
    d = made(count="acme.com/card", memory="acme.com/mem", core="acme.com/core")
    assert d.resources == {"acme.com/card", "acme.com/mem", "acme.com/core"}
    assert d.claim(a_pod(a_slice())) == Claim()


@pytest.mark.parametrize(
    "options",
    [
        {"count": MEM},
        {"node_scheduler_policy": "sideways"},
        {"gpu_scheduler_policy": "spread,sideways"},
        {"gpu_scheduler_policy": ""},
        {"unknown": 1},
    ],
    ids=str,
)
def test_configuration_that_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"different|no such policy|unknown"):
        made(**options)


def test_memory_in_bytes_is_given_its_unit() -> None:
    answer = rejected(a_pod(needs(gpu=1, mem="16Gi")))
    assert answer.remedy == (
        "16Gi is 17179869184: this resource counts units of 512 MiB, and no card has that much. "
        "For 16 GiB write 32."
    )


def test_warnings_name_the_field_that_the_manifest_has() -> None:
    answer = accepted(a_pod(a_container({}, named(gpu=1, core=4))))
    (warning,) = answer.warnings
    assert warning.startswith("spec.containers[0].resources.requests[mthreads.com/sgpu-core]: 4 ")
