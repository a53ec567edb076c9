"""What clients of other releases read and write. These bytes never change: new fields have
defaults."""

from __future__ import annotations

from tessera_schema.decisions import DecisionRecord, ReasonRecord
from tessera_schema.explained import (
    AskedShare,
    Explanation,
    Held,
    LimitUse,
    decode_explanation,
    encode_explanation,
)
from tessera_schema.grants import Share
from tessera_schema.reasons import Reason
from tessera_schema.review import ReviewAnswer, ReviewStatus, encode_review

EXPLAINED = (
    b'{"namespace":"team","name":"job","decision":{"uid":"u-1","verdict":"waiting","at":12.5,'
    b'"attempts":3,"node":"","feasible_nodes":0,"message":"0/1 nodes have room","reasons":'
    b'[{"node":"n1","reason":10,"message":"too little"}]},"dialects":["acme"],"asks":'
    b'[{"container":"c","vendor":"acme","dialect":"acme","count":2,"memory_bytes":1024,'
    b'"memory_percent":0,"cores_percent":30.0,"exclusive":false}],"quota":[{"source":"q",'
    b'"vendor":"","memory_bytes":4096,"memory_bytes_used":1024,"cores_percent":null,'
    b'"cores_percent_used":0,"cards":null,"cards_used":1,"models":null}],"held":{"node":"n1",'
    b'"phase":"reserved","since":12.0,"shares":[{"container":"c","position":0,"role":"app",'
    b'"vendor":"acme","dialect":"acme","card":"A0","index":0,"memory_bytes":1024,'
    b'"cores_percent":0,"exclusive":false}]}}'
)


def test_an_explanation() -> None:
    share = Share(
        container="c", position=0, vendor="acme", dialect="acme", card="A0", index=0,
        memory_bytes=1024,
    )  # fmt: skip
    asked = AskedShare(
        container="c", vendor="acme", dialect="acme", count=2, memory_bytes=1024,
        cores_percent=30.0,
    )  # fmt: skip
    reason = ReasonRecord(node="n1", reason=Reason.CARD_INSUFFICIENT_MEMORY, message="too little")
    decision = DecisionRecord(
        uid="u-1", verdict="waiting", at=12.5, attempts=3, message="0/1 nodes have room",
        reasons=(reason,),
    )  # fmt: skip
    explanation = Explanation(
        namespace="team", name="job", decision=decision, dialects=("acme",), asks=(asked,),
        quota=(LimitUse(source="q", memory_bytes=4096, memory_bytes_used=1024, cards_used=1),),
        held=Held(node="n1", phase="reserved", since=12.0, shares=(share,)),
    )  # fmt: skip
    assert encode_explanation(explanation) == EXPLAINED
    assert decode_explanation(EXPLAINED) == explanation


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
