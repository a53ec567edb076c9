"""What a bound pod's annotations count for, with and without a verifier."""

import pytest

from tessera_core.recovery.adopt import Adopted, adopt
from tessera_core.registry.registry import load
from tessera_core.trust.grants import Signer, Verifier, published_key
from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant
from tessera_testing.builders import a_card, a_container, a_pod

REGISTRY = load()
SIGNER = Signer(bytes(range(32)))
VERIFIER = Verifier(dict([published_key(SIGNER.public)]))
CARDS = [a_card("GPU-0", vendor="nvidia")]
SHARE = Share(
    container="c0", position=0, vendor="nvidia", dialect="hami", card="GPU-0", index=0,
    memory_bytes=1 << 30,
)  # fmt: skip
GRANT = Grant(uid="u", namespace="default", name="pod", node="n1", shares=(SHARE,))
HAMI = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,2048,0:;", "hami.io/vgpu-node": "n1"}


def adopted(*, others: bool = False, uid: str = "u", **annotations: str) -> Adopted:
    written = {k.replace("grant", GRANT_KEY): v for k, v in annotations.items()}
    pod = a_pod(a_container(), uid=uid, node="n1", annotations=written)
    return adopt(REGISTRY, pod, CARDS, verifier=VERIFIER, others=others)


def test_a_signed_grant_counts() -> None:
    assert adopted(grant=SIGNER.sign(encode_grant(GRANT))) == Adopted(grant=GRANT)


def test_an_unsigned_one_is_forged() -> None:
    found = adopted(grant=encode_grant(GRANT))
    assert (found.grant, found.forged) == (None, True)
    assert found.problem == f"annotation {GRANT_KEY}: it has no signature"


def test_without_a_verifier_nobody_looks() -> None:
    pod = a_pod(uid="u", node="n1", annotations={GRANT_KEY: encode_grant(GRANT)})
    assert adopt(REGISTRY, pod, CARDS) == Adopted(grant=GRANT)


def test_a_signed_one_of_another_pod_is_forged() -> None:
    found = adopted(uid="thief", grant=SIGNER.sign(encode_grant(GRANT)))
    assert (found.grant, found.forged) == (None, True)


def test_a_signed_one_of_another_version_is_no_forgery() -> None:
    found = adopted(grant=SIGNER.sign('{"version":7}'))
    assert (found.grant, found.forged, found.unknown_version) == (None, False, True)


def test_an_unsigned_one_of_another_version_is_forged() -> None:
    found = adopted(grant='{"version":7}')
    assert (found.forged, found.unknown_version) == (True, False)


@pytest.mark.parametrize("others", [False, True])
def test_other_systems_count_only_where_the_caller_says_so(*, others: bool) -> None:
    pod = a_pod(a_container(), uid="u", node="n1", annotations=HAMI)
    found = adopt(REGISTRY, pod, CARDS, verifier=VERIFIER, others=others)
    assert (found.grant is not None, found.forged) == (others, False)


def test_a_forged_one_does_not_hide_what_another_system_wrote() -> None:
    pod = a_pod(a_container(), uid="u", node="n1", annotations={**HAMI, GRANT_KEY: "{}"})
    found = adopt(REGISTRY, pod, CARDS, verifier=VERIFIER, others=True)
    assert found.forged
    assert found.grant is not None
    assert found.grant.shares[0].memory_mib == 2048
