"""Decoders of what others wrote: nothing but the exceptions that they declare, what is read can be
written and read again, and what is signed has one spelling."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from random import Random
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError as NotProtobuf
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.dialect_kit.contract import BadLimit
from tessera_core.hook.hami_core_region import NotARegion, read_region
from tessera_core.hook.limits_file import (
    BadLimits,
    CardLimit,
    HookLimits,
    decode_limits,
    encode_limits,
    sequence_of,
)  # fmt: skip
from tessera_core.hook.usage_file import UsageFileBounds, decode_usage
from tessera_core.inventory.merge import node_cards_with_allocations
from tessera_core.kube import quantity
from tessera_core.quota.objects import (
    AcceleratorQuota,
    ResourceQuota,
    accelerator_limit,
    resource_limits,
)
from tessera_core.registry.registry import load
from tessera_core.trust.grants import Signer, Verifier, published_key
from tessera_core.trust.messages import MessageSigner, sender_problem
from tessera_kubelet.errors import AdjustmentUnsupported, LinkGarbled
from tessera_kubelet.nri import mux, protobuf, ttrpc
from tessera_kubelet.nri.types import Adjustment, ContainerInfo, PodSandbox
from tessera_kubelet.proto import nri_pb2 as pb
from tessera_schema import grants, node_cards, resizes
from tessera_schema.cards import Card
from tessera_schema.grants import Grant, Share, UnknownGrantVersion
from tessera_schema.injections import Mount
from tessera_schema.json_codec import decoder
from tessera_schema.messages import device_reports
from tessera_testing.builders import a_card, a_node
from tests.agent.usagefile import a_usage
from tests.core.test_regions_of_hami_core import a_region
from tests.fuzz.fuzzer import Fuzzer, mutated

REGISTRY: Final = load()
SIGNER: Final = Signer(bytes(range(32)))
FORMER: Final = Signer(bytes(32))
VERIFIER: Final = Verifier(dict(published_key(s.public) for s in (SIGNER, FORMER)))
SPEAKER: Final = MessageSigner(bytes(range(32)))
ORDER: Final = (7, 42)
CARDS: Final = (
    a_card("GPU-a", vendor="nvidia", mib=81920), a_card("GPU-b", vendor="nvidia", mib=81920)
)  # fmt: skip


def _share(card: Card, memory: int) -> Share:
    return Share(
        container="main", position=0, vendor="nvidia", dialect="hami", card=card.id, index=0,
        memory_bytes=memory, cores_percent=12.5,
    )  # fmt: skip


GRANTS: Final = tuple(
    Grant(
        uid=f"u-{i}", namespace="team", name="job", node=f"n{i}", shares=(_share(CARDS[i], 2**30),)
    )
    for i in (0, 1)
)
_NODE_CARDS: Final = node_cards.encode_node_cards(
    node_cards.NodeCardsAnnotation(cards=CARDS, speaks="a")
)
SIGNED: Final = tuple(
    signer.sign(grants.encode_grant(grant)) for signer in (SIGNER, FORMER) for grant in GRANTS
)
STATE: Final = device_reports.encode(
    device_reports.DeviceState(node="n0", vendor="nvidia", cards=CARDS)
)
SIGNATURE: Final = SPEAKER.sign(ORDER, STATE)
LIMITS: Final = HookLimits(container="a/b/c", cards=(CardLimit(uuid="GPU-a"),))
BOUNDS: Final = UsageFileBounds(memory_bytes={}, now_ns=10**18)
SELECT: Final = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
QUOTAS: Final = (
    {"spec": {"hard": {"limits.nvidia.com/gpumem": "16k", "limits.nvidia.com/gpucores": 100,
                       "requests.nvidia.com/gpu": "4", "pods": "3"}, "scopes": ["Terminating"]}},
    {"spec": {"hard": {"memory": "64Gi", "cores": 250, "cards": "4", "models": {"A100": 2}},
              "guaranteed": {"memory": "1Gi"}, "namespaceSelector": SELECT, "vendor": "nvidia",
              "grace": "10m"}},
)  # fmt: skip
_read_resource = decoder(ResourceQuota)
_read_accelerator = decoder(AcceleratorQuota)

Check = Callable[[bytes, tuple[int, ...]], object]


class Decoder(Struct, frozen=True):
    """Something that reads."""

    samples: tuple[bytes, ...]
    check: Check
    """Reads the bytes, given places at which a stream might be cut; raises AssertionError where a
    promise is broken."""
    declared: tuple[type[Exception], ...] = ()


class Bytes(Struct, frozen=True):
    """For which decoder, what, and cut where."""

    decoder: str
    data: bytes
    cuts: tuple[int, ...]


def _again(decode: Callable[[str], Any], encode: Callable[[Any], bytes | str]) -> Check:
    """What was read is written and read again."""

    def check(data: bytes, _: tuple[int, ...]) -> None:
        found = decode(data.decode("utf-8", "surrogateescape"))
        once = encode(found)
        text = once if isinstance(once, str) else once.decode()
        assert decode(text) == found, "read, written and read again it says something else"

    return check


def _quantity(data: bytes, _: tuple[int, ...]) -> None:
    text = data.decode("latin-1")
    whole, up = quantity.integer_quantity(text), quantity.quantity_value(text)
    assert whole in {None, up}
    assert (up - 1) * 1000 < quantity.quantity_milli(text) <= up * 1000
    if up > 0:
        assert quantity.quantity_value(quantity.binary_quantity(up)) == up


def _grant(data: bytes, _: tuple[int, ...]) -> None:
    text = data.decode("utf-8", "surrogateescape")
    if not VERIFIER.problem(text):
        assert text in SIGNED, "a grant that was never signed"
        grants.decode_grant(text)


def _signature(data: bytes, cuts: tuple[int, ...]) -> None:
    del cuts
    signature, _, message = data.partition(b" ")
    text = signature.decode("latin-1")
    if not sender_problem(SPEAKER.public, text, ORDER, message):
        assert (text, message) == (SIGNATURE, STATE), "another spelling, or another message"


def _cards(data: bytes, _: tuple[int, ...]) -> None:
    text = data.decode("utf-8", "replace")
    node = a_node(
        annotations={"cards.tessera.dev/nvidia": text, "hami.io/node-nvidia-register": text}
    )
    on = node_cards_with_allocations(REGISTRY, node, {})
    assert len({card.id for card in on.cards}) == len(on.cards), "two cards of one name"


def _limits_file(data: bytes, _: tuple[int, ...]) -> None:
    found = decode_limits(data)
    assert decode_limits(encode_limits(found, sequence_of(data), 0)) == found


def _quota(read: Callable[[bytes], Any], limits: Callable[[Any], object]) -> Check:
    def check(data: bytes, _: tuple[int, ...]) -> None:
        limits(read(data))

    return check


def _resource_limits(quota: ResourceQuota) -> None:
    list(resource_limits(quota, REGISTRY, lambda _: None))


def _stream(feed: Callable[[], Callable[[bytes], Any]], again: Callable[[Any], bytes]) -> Check:
    """The same frames come out wherever the stream is cut, and are written as they were read."""

    def read(pieces: list[bytes]) -> tuple[list[Any], str]:
        feeding, found = feed(), []
        try:
            for piece in pieces:
                found += list(feeding(piece))
        except LinkGarbled as e:
            return found, str(e)
        return found, ""

    def check(data: bytes, cuts: tuple[int, ...]) -> None:
        edges = (0, *cuts, len(data))
        whole, why = read([data])
        cut, why_cut = read([data[a:b] for a, b in pairwise(edges)])
        assert why == why_cut
        if not why:
            assert cut == whole
            assert data.startswith(b"".join(map(again, whole)))

    return check


def _nri(kind: Any, read: Callable[[Any], Any], write: Callable[[Any], Any]) -> Check:
    def check(data: bytes, _: tuple[int, ...]) -> None:
        found = read(kind.FromString(data))
        assert read(kind.FromString(write(found).SerializeToString())) == found

    return check


def _json(written: object) -> bytes:
    return json.dumps(written).encode()


DECODERS: Final[Mapping[str, Decoder]] = {
    "quantity": Decoder(
        tuple(b"%s%s" % (n, s) for n in (b"0", b"1", b"1.5", b".25", b"-3", b"9" * 18)
              for s in (b"", b"m", b"k", b"Ki", b"Gi", b"E", b"e3", b"E-2", b"n")),
        _quantity, (quantity.BadQuantity,),
    ),
    "grant": Decoder(
        (*(text.encode() for text in SIGNED), SIGNED[0].encode() + SIGNED[1].encode(),
         SIGNED[0][:-1].encode() + b"," + SIGNED[1][1:].encode()),
        _grant, (msgspec.DecodeError, UnknownGrantVersion),
    ),
    "unsigned grant": Decoder(
        tuple(grants.encode_grant(grant).encode() for grant in GRANTS),
        _again(grants.decode_grant, grants.encode_grant),
        (msgspec.DecodeError, UnknownGrantVersion),
    ),
    "signature": Decoder((SIGNATURE.encode() + b" " + STATE,), _signature),
    "published": Decoder(
        (_NODE_CARDS.encode(),),
        _again(node_cards.decode_node_cards, node_cards.encode_node_cards), (msgspec.DecodeError,),
    ),
    "cards": Decoder(
        (node_cards.encode_node_cards(node_cards.NodeCardsAnnotation(cards=CARDS)).encode(),
         b'[{"id":"GPU-a","count":10,"devmem":16384,"devcore":100,"type":"A10","health":true}]'),
        _cards,
    ),
    "resize": Decoder(
        (b'{"plan":"p","changes":[{"container":"c","card":"g","memory_bytes":5}]}',),
        _again(resizes.decode_resize, resizes.encode_resize), (msgspec.DecodeError,),
    ),
    "device state": Decoder(
        (STATE,),
        _again(lambda t: device_reports.decode_device(t.encode("utf-8", "surrogateescape")),
               device_reports.encode), (msgspec.DecodeError,),
    ),
    "usage": Decoder(
        (device_reports.encode(device_reports.NodeUsage(
            node="n0", vendor="nvidia", at=1.5, interval_s=5,
            cards=(device_reports.CardLoad(card="GPU-a", cores_percent=3.5),),
            containers=(device_reports.ContainerUse(
                namespace="a", pod="b", uid="c", container="d",
                cards=(device_reports.CardUse(card="GPU-a", memory_bytes=5),),
            ),),
        )),),
        _again(lambda t: device_reports.decode_usage(t.encode("utf-8", "surrogateescape")),
               device_reports.encode), (msgspec.DecodeError,),
    ),
    "limits file": Decoder((encode_limits(LIMITS, 2, 5),), _limits_file, (BadLimits,)),
    "usage file": Decoder(
        (bytes(a_usage({"uuid": b"GPU-a"}, slots=({"pid": 7},))),),
        lambda data, _: decode_usage(data, BOUNDS),
    ),
    "region": Decoder(
        (bytes(a_region(0)), bytes(a_region(1))), lambda data, _: read_region(data), (NotARegion,)
    ),
    "resource quota": Decoder(
        (_json(QUOTAS[0]),),
        _quota(_read_resource, _resource_limits),
        (msgspec.DecodeError, BadLimit),
    ),
    "accelerator quota": Decoder(
        (_json(QUOTAS[1]),),
        _quota(_read_accelerator, lambda found: accelerator_limit(found, REGISTRY)),
        (msgspec.DecodeError, BadLimit),
    ),
    "mux": Decoder(
        (mux.frames(1, b"hello") + mux.frames(2, b"") + mux.frames(1, b"x" * 20),),
        _stream(lambda: mux.Frames().feed, lambda frame: mux.frames(*frame)),
    ),
    "ttrpc": Decoder(
        (ttrpc.message(1, ttrpc.TtrpcMessageKind.REQUEST, b"hello")
         + ttrpc.message(3, ttrpc.TtrpcMessageKind.RESPONSE, b""),),
        _stream(
            lambda: ttrpc.Messages().feed,
            lambda m: len(m.payload).to_bytes(4, "big") + m.stream.to_bytes(4, "big")
            + bytes((m.kind, m.flags)) + m.payload,
        ),
    ),
    "nri pod": Decoder(
        (protobuf.sandbox_message(PodSandbox(id="s", name="p", uid="u", namespace="n",
                                      labels={"a": "b"})).SerializeToString(),),
        _nri(pb.PodSandbox, protobuf.sandbox, protobuf.sandbox_message), (NotProtobuf,),
    ),
    "nri container": Decoder(
        (protobuf.container_message(ContainerInfo(
            id="c", sandbox_id="s", name="n", env={"A": "b", "C": ""}, pid=7,
            mounts=(Mount(destination="/a", source="/b"),),
        )).SerializeToString(),),
        _nri(pb.Container, lambda m: replace(protobuf.container(m), set_twice=frozenset()),
             protobuf.container_message), (NotProtobuf,),
    ),
    "nri adjustment": Decoder(
        (protobuf.adjustment_message(Adjustment(
            env={"A": "b"}, mounts=(Mount(destination="/a", source="/b"),), cdi=("x/y=z",),
        )).SerializeToString(),),
        _nri(pb.ContainerAdjustment, protobuf.adjustment, protobuf.adjustment_message),
        (NotProtobuf, AdjustmentUnsupported),
    ),
}  # fmt: skip


def _make(random: Random, decoders: Mapping[str, Decoder]) -> Bytes:
    name = random.choice(tuple(decoders))
    data = mutated(random, random.choice(decoders[name].samples))
    if random.random() < 0.1:
        data = _respelt(random, data)
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(3))
    return Bytes(name, data, tuple(cuts))


def _respelt(random: Random, data: bytes) -> bytes:
    """With another last digit of a base64 text, whose bits may be to spare."""
    at = data.find(b"==")
    if at < 1:
        return data
    digit = random.choice(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    return data[: at - 1] + bytes((digit,)) + data[at:]


def _check(decoders: Mapping[str, Decoder], made: Bytes) -> None:
    tested = decoders[made.decoder]
    try:
        tested.check(made.data, made.cuts)
    except tested.declared:
        return


def decoding(decoders: Mapping[str, Decoder] = DECODERS) -> Fuzzer:
    """With the decoders that are tested."""
    return Fuzzer(
        "decoding", lambda random: _make(random, decoders), lambda made: _check(decoders, made),
        6_000,
    )  # fmt: skip
