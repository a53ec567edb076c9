"""Only what the scheduler signed is a grant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.trust.grants import BadKey, Signer, Verifier, published_key
from tessera_schema.grants import Grant, decode_grant, encode_grant

SIGNER = Signer(bytes(range(32)))
VERIFIER = Verifier(dict([published_key(SIGNER.public)]))
A_GRANT = Grant(uid="u-1", namespace="team", name="job", node="n1", shares=())
SIGNED = SIGNER.sign(encode_grant(A_GRANT))


def test_a_signed_grant_is_tesseras_and_reads_as_before() -> None:
    assert VERIFIER.problem(SIGNED) == ""
    assert decode_grant(SIGNED) == A_GRANT


def test_an_unsigned_grant_is_not() -> None:
    assert VERIFIER.problem(encode_grant(A_GRANT)) == "it has no signature"


def test_another_key_belongs_to_another() -> None:
    other = Signer(bytes(32)).sign(encode_grant(A_GRANT))
    assert "not known here" in VERIFIER.problem(other)


def test_a_former_key_still_counts_while_it_is_published() -> None:
    former = Signer(bytes(32))
    both = Verifier(dict([published_key(SIGNER.public), published_key(former.public)]))
    assert both.problem(former.sign(encode_grant(A_GRANT))) == ""


@given(st.integers(0, len(SIGNED) - 1), st.characters(codec="utf-8"))
def test_any_change_is_noticed(at: int, put: str) -> None:
    changed = SIGNED[:at] + put + SIGNED[at + 1 :]
    assert bool(VERIFIER.problem(changed)) == (changed != SIGNED)


@given(st.integers(0, len(SIGNED) - 1))
def test_a_truncated_grant_is_noticed(length: int) -> None:
    assert VERIFIER.problem(SIGNED[:length])


@given(st.text())
def test_nonsense_is_never_a_grant(text: str) -> None:
    assert VERIFIER.problem(text)


def test_text_put_behind_the_signature_is_noticed() -> None:
    assert VERIFIER.problem(SIGNED + "\n")
    assert VERIFIER.problem(SIGNED[:-1] + ',"node":"n2"}')


@pytest.mark.parametrize("text", ["", "x", "A" * 44, "\udcff"])
def test_a_key_that_is_none_says_what_is_expected(text: str) -> None:
    with pytest.raises(BadKey, match="32 bytes in base64"):
        Verifier({"0" * 16: text})


def test_a_private_key_of_another_length_is_refused() -> None:
    with pytest.raises(BadKey, match="an Ed25519 key has 32"):
        Signer(b"short")
