"""Answers as the API server takes them: warnings that its header carries, statuses of refusals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from tessera_core.dialect_kit.contract import Rejected
from tessera_core.kube.json_patch import JsonPatchStep
from tessera_schema.endpoints.admission_review import (
    ReviewAnswer,
    ReviewRequest,
    ReviewStatus,
    encoded_patch,
)
from tessera_schema.reasons import Reason

MAX_WARNING: Final = 256
MAX_WARNINGS: Final = 15
"""The API server drops what exceeds 4096 characters in all."""


def allowed(
    request: ReviewRequest, steps: Sequence[JsonPatchStep] = (), warnings: Iterable[str] = ()
) -> ReviewAnswer:
    """An answer that allows the request, with these changes."""
    different = dict.fromkeys(text[: MAX_WARNING + 1] for text in warnings)
    texts = tuple(dict.fromkeys(map(_line, islice(different, MAX_WARNINGS))))
    if not steps:
        return ReviewAnswer(uid=request.uid, allowed=True, warnings=texts)
    return ReviewAnswer(
        uid=request.uid, allowed=True, patch_type="JSONPatch", patch=encoded_patch(steps),
        warnings=texts,
    )  # fmt: skip


def refused(request: ReviewRequest, rejected: Rejected) -> ReviewAnswer:
    """An answer that refuses the request: 403 for what would defeat isolation, 422 for what makes
    no sense."""
    forbidden = rejected.reason is Reason.ISOLATION_DEFEATED
    code, reason = (403, "Forbidden") if forbidden else (422, "Invalid")
    status = ReviewStatus(code=code, reason=reason, message=rejected.message)
    return ReviewAnswer(uid=request.uid, allowed=False, status=status)


def written_by_us(key: str) -> Rejected:
    """The refusal of a change that only Tessera's own accounts may make."""
    return Rejected(
        field=f"metadata.annotations[{key}]",
        value="",
        remedy="it says which cards a pod holds, and only Tessera writes it; leave it as it is",
        reason=Reason.ISOLATION_DEFEATED,
    )


def _line(text: str) -> str:
    """One printable line that fits."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= MAX_WARNING else plain[: MAX_WARNING - 3] + "..."
