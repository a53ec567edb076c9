"""Messages about quotas, as this release writes it and later ones must still read it."""

import msgspec
import pytest

from tessera_schema.quotas import (
    QuotaEvent,
    QuotaExceeded,
    QuotaRestored,
    QuotaThrottled,
    decode_quota,
    encode_quota,
    quota_subject,
)

GOLDEN: list[tuple[QuotaEvent, bytes]] = [
    (
        QuotaExceeded(
            namespace="a", quota="q", message="m", namespaces=("a", "b"), throttles_at="t"
        ),
        b'{"what":"exceeded","namespace":"a","quota":"q","message":"m","namespaces":["a","b"],'
        b'"throttles_at":"t"}',
    ),
    (
        QuotaThrottled(namespace="a", quota="q", message="m", cores_percent=50, vendor="v"),
        b'{"what":"throttled","namespace":"a","quota":"q","message":"m","cores_percent":50,'
        b'"vendor":"v","namespaces":[]}',
    ),
    (
        QuotaRestored(namespace="a", quota="q"),
        b'{"what":"restored","namespace":"a","quota":"q","namespaces":[]}',
    ),
]


@pytest.mark.parametrize(("event", "data"), GOLDEN)
def test_it_is_written_and_read_as_it_was(event: QuotaEvent, data: bytes) -> None:
    assert encode_quota(event) == data
    assert decode_quota(data) == event
    assert decode_quota(data[:-1] + b',"later":1}') == event


def test_the_subject_says_whose_and_what() -> None:
    subjects = [quota_subject("c", event) for event, _ in GOLDEN]
    assert subjects == [f"tessera.v1.c.quota.a.{w}" for w in ("exceeded", "throttled", "restored")]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"what":"else"}', b"[" * 100_000])
def test_garbage_is_refused_in_one_way(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_quota(data)
