"""Texts of the chart: YAML, and the values with comments, as a schema and as tables."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import yaml

from deploy.helm.values import Json, Section, Value

WIDTH: Final = 110


class _Dumper(yaml.SafeDumper):
    """Long texts as blocks, lists indented, no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002  (its base's)
        super().increase_indent(flow, indentless=False)


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _block)


def documents(head: str, objects: Iterable[object]) -> str:
    """YAML documents, each after a line `---`."""
    texts = (yaml.dump(o, Dumper=_Dumper, sort_keys=False, width=WIDTH) for o in objects)
    return head + "---\n".join(texts)


def values_yaml(head: str, sections: Sequence[Section]) -> str:
    """`values.yaml`: a comment over each value."""
    lines = [head.rstrip()]
    open_at: list[str] = []
    for section in sections:
        lines += ["", f"# {section.text}."]
        for value in section.values:
            *parents, name = value.path.split(".")
            same = next(
                (n for n, (a, b) in enumerate(zip(open_at, parents, strict=False)) if a != b),
                min(len(open_at), len(parents)),
            )
            lines += [f"{'  ' * n}{parents[n]}:" for n in range(same, len(parents))]
            open_at = parents
            margin = "  " * len(parents)
            lines += textwrap.wrap(
                value.text,
                WIDTH,
                initial_indent=f"{margin}# ",
                subsequent_indent=f"{margin}# ",
                break_on_hyphens=False,
            )
            lines.append(f"{margin}{name}: {_plain(value.default)}")
    return "\n".join(lines) + "\n"


def values_table(sections: Sequence[Section]) -> Iterator[str]:
    """The lines of the README's tables."""
    for section in sections:
        yield f"### {section.text}"
        yield ""
        yield "| value | default | meaning |"
        yield "| --- | --- | --- |"
        for value in section.values:
            text = value.text.replace("|", "\\|")
            yield f"| `{value.path}` | `{_plain(value.default)}` | {text} |"
        yield ""


def values_schema(sections: Sequence[Section]) -> str:
    """`values.schema.json`: a value that is not known is refused."""
    root: Json = {
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "additionalProperties": False, "properties": {"global": {"type": "object"}},
    }  # fmt: skip
    for section in sections:
        for value in section.values:
            at = root
            *parents, name = value.path.split(".")
            for parent in parents:
                at = at["properties"].setdefault(
                    parent, {"type": "object", "additionalProperties": False, "properties": {}}
                )
            at["properties"][name] = {"description": value.text, **_kind(value)}
    return json.dumps(root, indent=2) + "\n"


def _kind(value: Value) -> Json:
    if value.kind is not None:
        kind: Json = value.kind
        return kind
    names = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return {"type": names[type(value.default)]}


def _plain(value: Any) -> str:
    return json.dumps(value)
