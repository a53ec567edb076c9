"""Bodies of Kubernetes' admission webhooks (admission.k8s.io/v1), in and out.

Objects stay raw: the caller decides what they are and how much of them it reads.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tessera_schema.json_codec import decoder

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
_NULL: Final = msgspec.Raw(b"null")


class KindOf(Struct, frozen=True):
    """What an object is."""

    group: str = ""
    version: str = ""
    kind: str = ""


MOST_USER_BYTES: Final = 256 << 10
"""Of what a review says of who asks: API servers know of some dozen groups of a user."""


class User(Struct, frozen=True):
    """The user whose request is reviewed."""

    username: str = ""
    groups: tuple[str, ...] = ()


class ReviewRequest(Struct, frozen=True, rename="camel"):
    """What somebody wants to do."""

    uid: str
    kind: KindOf = KindOf()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: msgspec.Raw = msgspec.Raw(b"{}")
    """A `User`, unread."""
    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL

    def is_by(self, names: frozenset[str]) -> bool:
        """Whether the user who asks, or a group that it is in, has one of these names. Nobody whose
        description is too long to be read has any. Raises msgspec.DecodeError for what is no
        user."""
        text = bytes(self.user_info)
        user = _user(text) if len(text) <= MOST_USER_BYTES else User()
        return bool(names.intersection((user.username, *user.groups)))


class Review(Struct, frozen=True, rename="camel"):
    """A body as it comes in."""

    api_version: str = ""
    kind: str = ""
    request: ReviewRequest | None = None


class ReviewStatus(Struct, frozen=True):
    """Why a request is refused."""

    code: int
    reason: str
    message: str


class ReviewAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whether it may be done, how it is to be changed, and the message for its author."""

    uid: str
    allowed: bool
    status: ReviewStatus | None = None
    patch_type: str | UnsetType = UNSET
    patch: str | UnsetType = UNSET
    """A JSON patch, in base64."""
    warnings: tuple[str, ...] = ()


class Reviewed(Struct, frozen=True, rename="camel"):
    """A body as it goes out."""

    response: ReviewAnswer
    api_version: str = API_VERSION
    kind: str = KIND


class NotAReview(ValueError):
    """A body that is no AdmissionReview of this version; the message says what it lacks."""


_decode = decoder(Review)
_user = decoder(User)
_encode = msgspec.json.Encoder().encode


def decode_review(body: bytes) -> ReviewRequest:
    """The request in a body. Raises NotAReview."""
    try:
        review = _decode(body)
    except msgspec.DecodeError as e:
        raise NotAReview(f"the body cannot be read as an {KIND}: {e}") from e
    if review.kind != KIND:
        raise NotAReview(f"kind: {review.kind[:64]!r}: send an {KIND}")
    if review.api_version != API_VERSION:
        raise NotAReview(
            f"apiVersion: {review.api_version[:64]!r}: list v1 in admissionReviewVersions, "
            f"only {API_VERSION} is spoken here"
        )
    if review.request is None:
        raise NotAReview("request: missing: send what is to be reviewed")
    return review.request


def encode_review(answer: ReviewAnswer) -> bytes:
    """The answer's body."""
    return _encode(Reviewed(response=answer))


def encoded_patch(steps: Any) -> str:
    """A JSON patch as an answer carries it."""
    return base64.b64encode(_encode(steps)).decode()
