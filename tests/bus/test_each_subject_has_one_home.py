"""The table of streams: every message of the catalogue is kept, in one place."""

import pytest

from tessera_runtime.bus.api import MessageRejected
from tessera_runtime.bus.stream_setup import StreamFingerprint, difference
from tessera_runtime.bus.streams import StreamLayout
from tessera_runtime.bus.subject_patterns import matches, meet
from tessera_schema.messages.event_catalogue import CATALOGUE, EventType, sample
from tessera_schema.subjects import DEVICES_BUCKET, device, every

LAYOUT = StreamLayout("default")


@pytest.mark.parametrize("reported", CATALOGUE, ids=lambda reported: reported.type)
def test_what_is_reported_is_stored_in_one_stream(reported: EventType) -> None:
    subject = reported.address.format(**sample(reported))
    homes = LAYOUT.homes(subject)
    assert len(homes) == 1
    assert homes[0].stream.bucket == reported.bucket
    if not reported.bucket:
        assert LAYOUT.stream_of(subject) == homes[0].stream


def test_no_two_streams_keep_the_same_subject() -> None:
    streams = LAYOUT.streams
    for i, one in enumerate(streams):
        for other in streams[i + 1 :]:
            assert not meet(one.subjects, other.subjects), (one.name, other.name)


def test_what_is_republished_is_stored_by_no_stream() -> None:
    for bucket in LAYOUT.buckets.values():
        subject = bucket.published_subject(f"$KV.{bucket.bucket}.node.vendor")
        with pytest.raises(MessageRejected):
            LAYOUT.stream_of(subject)
        assert bucket.config(1)["republish"]["dest"] == f"{bucket.published}>"


def test_everything_is_read_from_every_stream() -> None:
    homes = LAYOUT.homes(every("default"))
    assert [home.stream for home in homes] == list(LAYOUT.streams)
    assert all(not matches("$KV.>", h.filter) for h in homes if not h.stream.bucket)


def test_a_subject_of_a_bucket_is_read_from_its_key() -> None:
    [home] = LAYOUT.homes(device("default", "n.1", "*"))
    assert home.filter == f"$KV.{DEVICES_BUCKET}.n_1.*"
    assert home.stream.published_subject(f"$KV.{DEVICES_BUCKET}.n_1.v") == device(
        "default", "n.1", "v"
    )


def test_another_clusters_values_are_not_here() -> None:
    with pytest.raises(MessageRejected):
        LAYOUT.homes("tessera.v1.other.device.>")


def test_only_what_the_layout_speaks_of_is_compared() -> None:
    wanted = {"a": 1, "b": {"c": 2}, "d": 0}
    assert difference(wanted, {"a": 1, "b": {"c": 2, "x": 3}, "e": 5}) == ()
    assert difference(wanted, {"a": 2, "b": {}, "d": 1}) == ("a", "b", "d")


def test_a_bucket_that_lost_something_is_known_by_its_mark() -> None:
    mark = StreamFingerprint("monday", 10, 3)
    assert mark.lost_since(mark) == ""
    assert StreamFingerprint("monday", 11, 4).lost_since(mark) == ""
    assert "made again" in StreamFingerprint("tuesday", 11, 4).lost_since(mark)
    assert "went back from 10 to 9" in StreamFingerprint("monday", 9, 3).lost_since(mark)
    assert "2 subjects" in StreamFingerprint("monday", 10, 2).lost_since(mark)
    ages = StreamFingerprint("monday", 10, 3, ages=True)
    assert StreamFingerprint("monday", 10, 2, ages=True).lost_since(ages) == ""
    assert "0 subjects" in StreamFingerprint("monday", 10, 0, ages=True).lost_since(ages)
