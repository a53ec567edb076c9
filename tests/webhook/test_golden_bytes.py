"""What clients of other releases read and write. These bytes never change: new fields have
defaults."""

from __future__ import annotations

from tessera_schema.endpoints.admission_review import ReviewAnswer, ReviewStatus, encode_review


def test_an_answer_to_the_api_server() -> None:
    assert encode_review(ReviewAnswer(uid="r", allowed=True)) == (
        b'{"response":{"uid":"r","allowed":true},"apiVersion":"admission.k8s.io/v1",'
        b'"kind":"AdmissionReview"}'
    )
    full = ReviewAnswer(
        uid="r", allowed=False, status=ReviewStatus(422, "Invalid", "why"),
        patch_type="JSONPatch", patch="W10=", warnings=("careful",),
    )  # fmt: skip
    assert encode_review(full) == (
        b'{"response":{"uid":"r","allowed":false,"status":{"code":422,"reason":"Invalid",'
        b'"message":"why"},"patchType":"JSONPatch","patch":"W10=","warnings":["careful"]},'
        b'"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}'
    )
