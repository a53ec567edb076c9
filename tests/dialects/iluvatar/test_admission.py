"""What a manifest becomes in either form, and which manifests can never run (ADM-I, REQ-I)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tessera_schema.kube import Quantity
from tessera_testing.builders import a_container, a_pod
from tests.dialects.iluvatar.setting import (
    CORE,
    GPU,
    MEM,
    accepted,
    changed,
    made,
    new,
    old,
    rejected,
    the_request,
)

Form = Callable[..., dict[str, Quantity]]
MIB = 1 << 20
both_forms = pytest.mark.parametrize("form", [old, new], ids=["older-form", "by-model"])


def the_limits(limits: dict[str, Quantity]) -> dict[str, str]:
    (container,) = changed(a_pod(a_container(limits))).spec.containers
    assert {k: str(v) for k, v in container.resources.limits.items()} == {
        k: str(v) for k, v in container.resources.requests.items()
    }
    return {k: str(v) for k, v in container.resources.limits.items()}


@both_forms
def test_several_cards_have_all_their_cores(form: Form) -> None:  # ADM-I01
    assert the_limits(form(gpu=2, core=1)) == form(gpu="2", core="200")
    assert the_limits(form(gpu=2)) == form(gpu="2", core="200")
    assert the_limits(form(gpu=2, mem=4)) == form(gpu="2", mem="4", core="200")


@both_forms
def test_one_card_stays_as_written(form: Form) -> None:
    assert the_limits(form(gpu=1)) == form(gpu="1")
    assert the_limits(form(gpu=1, core=50, mem=64)) == form(gpu="1", core="50", mem="64")


@both_forms
@pytest.mark.parametrize(
    ("amounts", "canonical"),
    [
        # count, MiB, percent of memory, percent of cores, exclusive
        pytest.param({"gpu": 1}, (1, 0, 100, 0, False), id="REQ-I03"),
        pytest.param({"gpu": 1, "core": 50, "mem": 64}, (1, 16384, 0, 50, False), id="the-seed"),
        pytest.param({"gpu": 1, "mem": 0}, (1, 0, 100, 0, False), id="memory-0"),
        pytest.param({"gpu": 1, "core": 100}, (1, 0, 100, 100, False), id="all-cores"),
        pytest.param({"gpu": 1, "core": 250}, (1, 0, 100, 100, False), id="cores-are-clamped"),
        pytest.param({"gpu": 2}, (2, 0, 100, 100, True), id="two-cards"),
        pytest.param({"gpu": 2, "mem": 4, "core": 1}, (2, 0, 100, 100, True), id="two-are-whole"),
        pytest.param({"gpu": "2", "mem": "4"}, (2, 0, 100, 100, True), id="text"),
    ],
)
def test_requests_are_per_card_in_canonical_units(
    form: Form, amounts: dict[str, Quantity], canonical: tuple[int, int, int, float, bool]
) -> None:
    r = the_request(a_pod(a_container(form(**amounts))))
    found = (r.count, r.memory_bytes // MIB, r.memory_percent, r.cores_percent, r.exclusive)
    assert found == canonical
    assert r.owns_whole_cores
    assert not r.together


@both_forms
@pytest.mark.parametrize(
    "amounts",
    [{"gpu": 1}, {"gpu": 1, "mem": 4, "core": 10}, {"gpu": 3, "mem": 4, "core": 10}],
    ids=str,
)
def test_admitting_the_changed_pod_changes_nothing(
    form: Form, amounts: dict[str, Quantity]
) -> None:
    pod = a_pod(a_container(form(**amounts)))
    again = accepted(changed(pod))
    assert again.changes == {}
    assert again.containers == accepted(pod).containers


@both_forms
def test_requests_alone_are_understood(form: Form) -> None:
    pod = a_pod(a_container({}, form(gpu=1, mem=4)))
    assert the_request(pod).memory_bytes == 1024 * MIB


@both_forms
def test_a_count_of_0_requests_nothing(form: Form) -> None:
    answer = accepted(a_pod(a_container(form(gpu=0, mem=4))))
    assert answer.containers == ()
    assert answer.changes == {}


def test_the_container_is_given_its_name() -> None:
    pod = a_pod(
        a_container(new(gpu=1), name="a"),
        a_container(new(gpu=1), name="b", env={"SOL_CONTINER_NAME": "mine"}),
        a_container({"cpu": 1}, name="c"),
    )
    changes = accepted(pod).changes
    assert changes["a"].env == {"SOL_CONTINER_NAME": "a"}
    assert changes["b"].env == {}
    assert "c" not in changes


@both_forms
def test_amounts_given_in_vain_are_reported(form: Form) -> None:
    memory, cores = accepted(a_pod(a_container(form(gpu=2, mem=4, core=1)))).warnings
    assert "4 is not used" in memory
    assert "1 becomes 200" in cores
    (clamped,) = accepted(a_pod(a_container(form(gpu=1, core=101)))).warnings
    assert "101 counts as 100" in clamped


@both_forms
@pytest.mark.parametrize(
    ("amounts", "short"),
    [
        pytest.param({"gpu": 1, "mem": "16Gi"}, "mem", id="REQ-I04"),
        pytest.param({"gpu": 1, "mem": 8388608}, "mem", id="memory-beyond-32-bits"),
        pytest.param({"gpu": 1, "mem": -1}, "mem", id="negative"),
        pytest.param({"gpu": -1}, "gpu", id="negative-count"),
        pytest.param({"gpu": 4294967296}, "gpu", id="count-beyond-32-bits"),
        pytest.param({"gpu": "1.5"}, "gpu", id="one-and-a-half"),
        pytest.param({"gpu": 1, "core": "500m"}, "core", id="half-a-percent"),
        pytest.param({"gpu": 1, "core": "lots"}, "core", id="a-word"),
        pytest.param({"gpu": 2, "core": -5}, "core", id="negative-though-in-vain"),
        pytest.param({"mem": 64, "core": 50}, "mem", id="memory-without-a-count"),
        pytest.param({"core": 50}, "core", id="cores-without-a-count"),
    ],
)
def test_what_can_never_run_is_refused_by_field_value_and_remedy(
    form: Form, amounts: dict[str, Quantity], short: str
) -> None:
    answer = rejected(a_pod(a_container(form(**amounts))))
    (name,) = form(**{short: 0})
    assert answer.field == f"spec.containers[0].resources.limits[{name}]"
    assert answer.value == str(amounts[short])
    assert answer.remedy


@pytest.mark.parametrize(("core", "cards"), [(50, 1), (100, 1), (200, 2)])
def test_cores_without_a_count_are_given_the_cards_to_add(core: int, cards: int) -> None:
    assert f"add {GPU}: {cards}" in rejected(a_pod(a_container(old(core=core)))).remedy


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({**old(gpu=1), **new(gpu=1)}, id="counts"),
        pytest.param({**old(gpu=1), **new("BI-V150", mem=4)}, id="memory-of-the-other"),
        pytest.param({**old(mem=4), **new(gpu=1)}, id="older-memory"),
    ],
)
def test_both_forms_in_one_container_are_refused_by_both_names(limits: dict[str, Quantity]) -> None:
    answer = rejected(a_pod(a_container(limits)))
    assert "-vgpu" in answer.field or ".vMem" in answer.field
    assert any(name in answer.remedy for name in (GPU, MEM))


def test_containers_of_one_pod_may_use_different_forms_and_models() -> None:
    pod = a_pod(
        a_container({**new(gpu=1), **new("BI-V150", gpu=2)}), a_container(old(gpu=1, core=10))
    )
    requests = [[r.models for r in c.requests] for c in accepted(pod).containers]
    assert requests == [[("MR-V100",), ("BI-V150",)], [("Iluvatar",)]]


def test_annotations_choose_cards_in_either_form() -> None:
    notes = {
        "iluvatar.ai/use-gpuuuid": "a, b", "iluvatar.ai/nouse-gpuuuid": "b",
        "hami.io/use-MR-V100-uuid": "c", "hami.io/no-use-MR-V100-uuid": "d",
    }  # fmt: skip
    pod = a_pod(a_container(old(gpu=1)), a_container(new(gpu=1)), annotations=notes)
    found = [(c.requests[0].ids, c.requests[0].ids_denied) for c in accepted(pod).containers]
    assert found == [(("a", "b"), ("b",)), (("c",), ("d",))]


def test_models_whose_names_contain_each_other_are_distinguished() -> None:
    models = ["MR-V100", "MR-V100X"]
    (short,) = accepted(a_pod(a_container(new(gpu=1))), models=models).containers
    (long,) = accepted(a_pod(a_container(new("MR-V100X", gpu=1))), models=models).containers
    assert (short.requests[0].models, short.requests[0].models_denied) == (
        ("MR-V100",),
        ("MR-V100X",),
    )
    assert (long.requests[0].models, long.requests[0].models_denied) == (("MR-V100X",), ())


def test_names_and_models_can_be_configured() -> None:
    d = made(
        core="a/core", memory="a/mem", count="a/card", models=["Z9", {"name": "Y", "count": "y/n"}]
    )
    assert d.resources == {
        "a/core", "a/mem", "a/card", "iluvatar.ai/Z9-vgpu", "iluvatar.ai/Z9.vMem",
        "iluvatar.ai/Z9.vCore", "y/n", "iluvatar.ai/Y.vMem", "iluvatar.ai/Y.vCore",
    }  # fmt: skip


def test_a_model_can_take_over_the_older_names() -> None:
    model = {"name": "MR-V100", "count": GPU, "memory": MEM, "core": CORE}
    with pytest.raises(ValueError, match="set legacy to false"):
        made(models=[model])
    assert made(models=[model], legacy=False).resources == {GPU, MEM, CORE}


@pytest.mark.parametrize(
    "options",
    [
        {"core": MEM},
        {"models": ["A", "A"]},
        {"node_scheduler_policy": "sideways"},
        {"gpu_scheduler_policy": "sideways"},
        {"models": [{"name": "A", "colour": "red"}]},
    ],
    ids=str,
)
def test_configuration_that_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"named twice|no such policy|colour"):
        made(**options)


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        (old(gpu=1, mem="16Gi"), "limits[iluvatar.ai/vcuda-memory]"),
        (new(gpu=1, mem="16Gi"), "limits[iluvatar.ai/MR-V100.vMem]"),
    ],
)
def test_memory_in_bytes_is_given_its_unit(limits: dict[str, Quantity], field: str) -> None:
    answer = rejected(a_pod(a_container(limits)))
    assert answer.field.endswith(field)
    assert answer.remedy == (
        "16Gi is 17179869184: this resource counts units of 256 MiB, and no card has that much. "
        "For 16 GiB write 64."
    )


@both_forms
def test_amounts_next_to_a_count_of_0_are_reported(form: Form) -> None:
    answer = accepted(a_pod(a_container(form(gpu=0, mem=4, core=0))))
    assert not answer.containers
    (warning,) = answer.warnings
    assert "limits[" in warning
    assert "asks for 0 cards" in warning


def test_warnings_name_the_field_that_the_manifest_has() -> None:
    answer = accepted(a_pod(a_container({}, old(gpu=1, core=150))))
    assert answer.warnings == (
        "spec.containers[0].resources.requests[iluvatar.ai/vcuda-core]: 150 counts as 100: "
        "a card has no more",
    )
