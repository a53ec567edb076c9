"""What is refused names field, value and remedy; what others changed is noticed; bad bodies and
large ones have an answer."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.quota.allowance import Allowance, QuotaUsage
from tessera_scheduler.webhook.review import mutate, validate
from tessera_scheduler.webhook.rules import Setting
from tessera_schema.endpoints.admission_review import NotAReview, decode_review
from tessera_schema.quotas import Limit
from tests.dialects.garbage import AMOUNTS
from tests.webhook.setting import (
    REGISTRY,
    RULES,
    Json,
    a_manifest,
    a_review,
    admitted,
    mutated,
    patch_of,
    patched,
    validated,
    why_not,
)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"inspur.com/vcuda-core": "150"},
         "spec.containers[0].resources.limits[inspur.com/vcuda-core]: 150: write a multiple "),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16Gi"},
         "spec.containers[0].resources.limits[nvidia.com/gpumem]: 16Gi: "),
        ({"nvidia.com/gpu": "1", "volcano.sh/vgpu-number": "1"},
         "spec.containers[0].resources.limits[volcano.sh/vgpu-number]: volcano beside "),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(limits: dict[str, str], message: str) -> None:
    for phase in (mutated, validated):
        status, text = why_not(phase(a_manifest(limits)))
        assert status == 422
        assert text.startswith(message)


def test_a_pod_that_was_not_completed_is_noticed() -> None:
    amounts = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
    _, text = why_not(validated(a_manifest(amounts)))
    assert text.startswith("/spec/schedulerName: not as Tessera's mutating webhook leaves it: ")
    pod = admitted(a_manifest(amounts))
    del pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpumem"]
    assert why_not(validated(pod))[1].startswith("/spec/containers/0/resources/requests/")


def test_annotations_leave_room_for_the_grant() -> None:
    pod = a_manifest(notes={"big": "x" * (200 << 10)})
    status, text = why_not(mutated(pod))
    assert (status, text.partition(": the")[0]) == (422, "metadata.annotations: 201 KiB")
    assert mutated(a_manifest(notes={"big": "x" * (199 << 10)})).allowed
    assert mutated(a_manifest({"cpu": "1"}, notes={"big": "x" * (200 << 10)})).allowed


def test_quota_warns_early() -> None:
    limit = Limit(namespace="team", source="ResourceQuota team/gpus", memory_bytes=4000 << 20)
    used = {("nvidia", ""): QuotaUsage(memory_bytes=3000 << 20, cards=1)}
    setting = Setting(allowance=Allowance([limit], used))
    amounts = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000"}
    (warning,) = mutated(a_manifest(amounts), setting).warnings
    assert warning == (
        "ResourceQuota team/gpus allows 4000 MiB of memory, 3000 are used and 2000 asked: the pod "
        "waits until there is room"
    )
    amounts["nvidia.com/gpumem"] = "1000"
    assert mutated(a_manifest(amounts), setting).warnings == ()


def test_warnings_are_short_printable_lines() -> None:
    notes = {f"tessera.dev/{'x' * 300}\n{i}": "" for i in range(30)}
    text = mutated(a_manifest(notes=notes)).warnings
    assert len(text) <= 15
    assert all(len(line) <= 256 and line.isprintable() for line in text)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the body cannot be read as an AdmissionReview: "),
        (b"{", "the body cannot be read as an AdmissionReview: "),
        (b"[" * 100_000, "the body cannot be read as an AdmissionReview: "),
        (b"[]", "the body cannot be read as an AdmissionReview: "),
        (b"{}", "kind: '': send an AdmissionReview"),
        (b'{"kind":"Pod"}', "kind: 'Pod': send an AdmissionReview"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}',
         "apiVersion: 'admission.k8s.io/v1beta1': list v1 in admissionReviewVersions, "),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "request: missing: "),
    ],
)  # fmt: skip
def test_a_body_that_is_no_review_gets_400(body: bytes, sentence: str) -> None:
    with pytest.raises(NotAReview) as caught:
        decode_review(body)
    assert str(caught.value).startswith(sentence)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["metadata", "annotations", "spec", "containers", "resources", "limits",
                         "env", "name", "nvidia.com/gpu"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(JSON, st.sampled_from([mutate, validate]), st.sampled_from(["", "ephemeralcontainers"]))
def test_an_object_that_is_no_pod_has_one_kind_of_error(pod: Json, phase: type, sub: str) -> None:
    request = decode_review(msgspec.json.encode(a_review(pod, sub=sub)))
    try:
        answer = phase(RULES, request, Setting())
    except msgspec.DecodeError:
        return
    assert answer.uid == "r-1"


NAMES = sorted(REGISTRY.resources)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_every_pod_is_refused_or_completed_once(data: st.DataObject) -> None:
    limits = data.draw(st.dictionaries(st.sampled_from(NAMES), AMOUNTS, min_size=1, max_size=3))
    pod = a_manifest({name: str(amount) for name, amount in limits.items()})
    if data.draw(st.booleans()):
        del pod["spec"]["containers"][0]["resources"]["requests"]
    answer = mutated(pod)
    if not answer.allowed:
        return
    done = patched(pod, answer)
    again = mutated(done)
    if again.allowed:
        assert patch_of(again) == []
        assert validated(done).allowed
    else:  # what it was completed with is beyond every limit
        assert not validated(done).allowed


@pytest.mark.parametrize("zero", ["kubernetes.io/gpu", "koordinator.sh/gpu-memory-ratio"])
def test_an_amount_of_zero_chooses_no_dialect(zero: str) -> None:
    pod = a_manifest({zero: "0", "nvidia.com/gpu": "1"})
    done = patched(pod, mutated(pod))
    limits = done["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {zero: "0", "nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}
    assert patch_of(mutated(done)) == []
    assert validated(done).allowed


def test_a_zero_next_to_another_dialect_contradicts_nothing() -> None:
    pod = a_manifest({"volcano.sh/vgpu-number": "0", "nvidia.com/gpu": "1"})
    assert mutated(pod).allowed
    pod = a_manifest({"volcano.sh/vgpu-number": "1", "nvidia.com/gpu": "0"})
    assert mutated(pod).allowed
    pod = a_manifest({"volcano.sh/vgpu-number": "1", "nvidia.com/gpu": "1"})
    assert not mutated(pod).allowed


def test_zeros_of_one_vendor_stay_what_they_are_next_to_cards_of_another() -> None:
    _, text = why_not(mutated(a_manifest({"mthreads.com/vgpu": "0", "nvidia.com/gpu": "1"})))
    assert text.startswith("spec.containers[0].resources.limits[mthreads.com/vgpu]: 0: ")
