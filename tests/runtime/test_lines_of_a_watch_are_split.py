"""A line of a watch is taken apart in the same way, however it is written."""

import msgspec
import pytest

from tessera_runtime.kube.lists import event_of

POD = b'{"kind":"Pod","metadata":{"name":"a","uid":"{\\"}","resourceVersion":"7"},"spec":{"a":{}}}'


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "OTHER"])
@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"%b","object":%b}',
        b'{"type":"%b","object":%b} ',
        b'{"type": "%b", "object": %b}',
        b'{"type":"%b","object":%b,"more":{}}',
        b'{"type":"%b","object":%b,"more":"}"}',
    ],
)
def test_type_object_and_version_are_found_wherever_they_stand(line: bytes, kind: str) -> None:
    assert event_of(line % (kind.encode(), POD)) == (kind, POD, "7")


def test_the_object_may_come_before_the_type() -> None:
    assert event_of(b'{"object":%b,"type":"ADDED"}' % POD) == ("ADDED", POD, "7")


def test_an_object_without_a_version_has_none() -> None:
    assert event_of(b'{"type":"ADDED","object":{"metadata":{}}}') == (
        "ADDED", b'{"metadata":{}}', "",
    )  # fmt: skip
    odd = b'{"metadata":{"resourceVersion":7}}'
    assert event_of(b'{"type":"ADDED","object":%b}' % odd) == ("ADDED", odd, "")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"null",
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":{}',
        b'{"type":"ADDED","object":{{}}',
        b'{"type":"ADDED","object":{"metadata":}}',
        b'{"type":"ADDED","object":{}}}',
    ],
)
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        event_of(line)
