"""What may be a name, a label or an annotation: RFC 1123 and Kubernetes' qualified names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tessera_embedded.apiserver.errors import Cause, required, wrong

ANNOTATIONS_BYTES: Final = 256 * 1024
"""The most that all annotations of an object may take, keys included."""

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = rf"({_QUALIFIED})?"


def label_problem(text: str) -> str | None:
    """Why this is not a DNS label, or None."""
    if re.fullmatch(_LABEL, text, re.ASCII) is None:
        return (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
            "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
            f"regex used for validation is '{_LABEL}')"
        )
    return "must be no more than 63 characters" if len(text) > 63 else None


def subdomain_problem(text: str) -> str | None:
    """Why this is not a DNS subdomain, or None."""
    if re.fullmatch(_SUBDOMAIN, text, re.ASCII) is None:
        return (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character (e.g. "
            f"'example.com', regex used for validation is '{_SUBDOMAIN}')"
        )
    return "must be no more than 253 characters" if len(text) > 253 else None


def qualified_problem(text: str) -> str | None:
    """Why this is not a qualified name (`prefix/name`), or None."""
    prefix, slash, name = text.rpartition("/")
    if slash and (problem := subdomain_problem(prefix)):
        return f"prefix part {problem}"
    if re.fullmatch(_QUALIFIED, name, re.ASCII) is None:
        return (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
            "and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
            f"regex used for validation is '{_QUALIFIED}')"
        )
    return "name part must be no more than 63 characters" if len(name) > 63 else None


def value_problem(text: str) -> str | None:
    """Why this is not a label's value, or None."""
    if len(text) > 63:
        return "must be no more than 63 characters"
    if re.fullmatch(_VALUE, text, re.ASCII) is None:
        return (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', "
            "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  "
            f"or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
        )
    return None


def label_causes(field: str, labels: Mapping[str, str]) -> list[Cause]:
    """What is wrong with these labels."""
    keys = [wrong(field, k, why) for k in labels if (why := qualified_problem(k))]
    return keys + [wrong(field, v, why) for v in labels.values() if (why := value_problem(v))]


def annotation_causes(field: str, annotations: Mapping[str, str]) -> list[Cause]:
    """What is wrong with these annotations, their size included."""
    causes = [
        wrong(field, key, why) for key in annotations if (why := qualified_problem(key.lower()))
    ]
    size = sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items())
    if size > ANNOTATIONS_BYTES:
        most = f"Too long: may not be more than {ANNOTATIONS_BYTES} bytes"
        causes.append(Cause("FieldValueTooLong", most, field))
    return causes


def name_causes(name: str, *, label: bool = False) -> list[Cause]:
    """What is wrong with an object's name."""
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    problem = label_problem(name) if label else subdomain_problem(name)
    return [wrong("metadata.name", name, problem)] if problem else []
