"""A container as Koordinator's webhook leaves it, and the check that follows."""

from __future__ import annotations

import pytest

from tessera_core.admission.admit import admit
from tessera_core.dialect_kit.contract import Admitted, ContainerChange, Rejected
from tessera_core.registry.registry import load
from tessera_schema.kube import Pod
from tessera_testing.builders import a_container, a_pod
from tests.dialects.koordinator.spoken import KOORDINATOR, NAMES, a_koord_pod, amounts

OTHERS = ("hami", "iluvatar", "mthreads", "volcano", "gpumanager")
ONLY_KOORDINATOR = load({name: {"enabled": False} for name in OTHERS})


def after(pod: Pod) -> tuple[dict[str, str], dict[str, str]]:
    """Limits and requests of the first container after admission."""
    admission = admit(ONLY_KOORDINATOR, pod)
    assert admission is not None
    assert not isinstance(admission, Rejected), admission.message
    container = admission.containers["c0"]
    return dict(container.limits), dict(container.requests)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param("gpu=50", "core=50 ratio=50 sh=1", id="K1"),
        pytest.param("gpu=200", "core=200 ratio=200 sh=2", id="K4"),
        pytest.param("ratio=100", "ratio=100 sh=1", id="K8-100"),
        pytest.param("ratio=200", "ratio=200 sh=2", id="K8-200"),
        pytest.param("mem=8Gi", "mem=8Gi sh=1", id="K9"),
        pytest.param("core=50 ratio=200", "core=50 ratio=200 sh=2", id="K10"),
        pytest.param("core=100 ratio=50", "core=100 ratio=50 sh=1", id="K11"),
        pytest.param("core=200 mem=16Gi", "core=200 mem=16Gi sh=2", id="cores-of-two-cards"),
        pytest.param("sh=2 ratio=100", "sh=2 ratio=100", id="shared-is-kept"),
        pytest.param("nv=2", "nv=2", id="whole-cards-are-kept"),
        pytest.param("kubernetes.io/gpu=50", "core=50 ratio=50 sh=1", id="deprecated-gpu"),
        pytest.param(
            "kubernetes.io/gpu-core=50 kubernetes.io/gpu-memory=8Gi", "core=50 mem=8Gi sh=1",
            id="deprecated-core-and-memory",
        ),
    ],
)  # fmt: skip
def test_wrapper_deprecated_names_and_shared_are_rewritten(before: str, expected: str) -> None:
    limits, requests = after(a_koord_pod(before))
    assert limits == requests == amounts(expected)


@pytest.mark.parametrize(
    ("before", "blamed"),
    [
        pytest.param("core=50", "core", id="K5-50"),
        pytest.param("core=200", "core", id="K5-200"),
        pytest.param("core=150 mem=1Gi", "core", id="K7"),
        pytest.param("ratio=150", "ratio", id="K8-150"),
        pytest.param("mem=8000 ratio=200", "ratio", id="K14"),
    ],
)
def test_what_is_refused_later_is_refused_at_once(before: str, blamed: str) -> None:
    answer = KOORDINATOR.admit(a_koord_pod(before))
    assert isinstance(answer, Rejected)
    assert answer.field.endswith(f"[{NAMES[blamed]}]")


@pytest.mark.parametrize(
    "text",
    ["gpu=50", "gpu=200", "mem=8Gi", "core=50 ratio=200", "nv=2", "kubernetes.io/gpu=50",
     "sh=0 ratio=50"],
)  # fmt: skip
def test_admitting_the_rewritten_pod_changes_nothing(text: str) -> None:
    limits, requests = after(a_koord_pod(text))
    again = KOORDINATOR.admit(a_pod(a_container(limits, requests), scheduler="koord-scheduler"))
    first = KOORDINATOR.admit(a_koord_pod(text))
    assert isinstance(again, Admitted)
    assert isinstance(first, Admitted)
    assert not again.changes
    assert again.containers == first.containers


@pytest.mark.parametrize("given", ["limits", "requests"])
def test_amounts_in_one_place_are_written_to_both(given: str) -> None:
    said = amounts("core=50 ratio=50")
    container = a_container(said) if given == "limits" else a_container(requests=said)
    pod = a_pod(container, scheduler="koord-scheduler")
    limits, requests = after(pod)
    assert limits == requests == amounts("core=50 ratio=50 sh=1")


def test_an_amount_under_both_names_is_refused() -> None:
    answer = KOORDINATOR.admit(a_koord_pod("ratio=50 kubernetes.io/gpu-memory-ratio=50"))
    assert isinstance(answer, Rejected)
    assert answer.field.endswith("[kubernetes.io/gpu-memory-ratio]")
    assert NAMES["ratio"] in answer.remedy


def test_only_what_changes_is_reported() -> None:
    answer = KOORDINATOR.admit(a_koord_pod("gpu=50", "sh=1 ratio=50"))
    assert isinstance(answer, Admitted)
    said = amounts("core=50 ratio=50 sh=1")
    removed = frozenset({NAMES["gpu"]})
    assert answer.changes == {"c0": ContainerChange(limits=said, requests=said, removed=removed)}


@pytest.mark.parametrize(
    "text",
    [pytest.param("gpu=200", id="L1-200"), pytest.param("gpu=70", id="L1-70")],
)
def test_the_validating_webhook_allows(text: str) -> None:
    assert isinstance(KOORDINATOR.admit(a_koord_pod(text)), Admitted)


@pytest.mark.parametrize(
    ("text", "blamed"),
    [
        pytest.param("sh=1 mem=4000 ratio=100", "ratio", id="L2"),
        pytest.param("sh=2", "sh", id="L3"),
        pytest.param("sh=2 ratio=101", "ratio", id="L5"),
        pytest.param("sh=2 ratio=101", "ratio", id="L8-there-is-no-gate"),
        pytest.param("gpu=100 sh=1", "gpu", id="gpu-and-shared"),
    ],
)
def test_the_validating_webhook_refuses(text: str, blamed: str) -> None:
    answer = KOORDINATOR.admit(a_koord_pod(text))
    assert isinstance(answer, Rejected)
    assert answer.field.endswith(f"[{NAMES[blamed]}]")
