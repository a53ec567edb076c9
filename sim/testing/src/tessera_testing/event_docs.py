"""docs/events.md and docs/asyncapi.json, made from the catalogue and the layout.

    python -m tessera_testing.event_docs docs

For readers of Tessera's messages without Tessera's code. A test compares the files with what
this makes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from tessera_runtime.bus.streams import Stream, StreamLayout
from tessera_schema.messages.envelope import Envelope
from tessera_schema.messages.event_catalogue import CATALOGUE, PARAMETERS, EventType, sample

_HEADERS: Final = {
    "ce-specversion": "`1.0`: CloudEvents, binary mode.",
    "ce-id": "Unique; a message that is sent again has the same.",
    "ce-source": "`/tessera/<service>/<instance>`.",
    "ce-type": "What it is; one of the types below.",
    "ce-time": "When it was published, RFC 3339, UTC.",
    "ce-datacontenttype": "`application/json`.",
    "ce-schemaversion": "Version of the data's schema. New fields do not change it.",
    "ce-epoch": "When the source started, Unix time in milliseconds.",
    "ce-sequence": "Counts the source's messages within its epoch.",
    "Nats-Msg-Id": "The same as `ce-id`; JetStream drops repeats by it.",
    "traceparent": "W3C trace context of what made it happen. Optional.",
    "ce-signature": "Of an agent's messages: Ed25519, base64, of `<epoch>.<sequence>.` and the "
    "data, by the key in `speaks` of the node's annotation `cards.tessera.dev/<vendor>`. Optional.",
}
_OPTIONAL: Final = frozenset({"traceparent", "ce-signature"})

_INTRODUCTION: Final = """\
# Messages

<!-- Made by `make generate` from tessera_schema.messages.event_catalogue: edit that. -->

Tessera publishes what happens on NATS. The subject `tessera.v1.<cluster>.>` has everything about a
cluster:

```sh
nats sub 'tessera.v1.default.>'
nats stream view TESSERA_ALLOCATION
nats kv watch tessera-devices
```

`tessera events` prints the same, one line a message ([cli.md](cli.md)).

A message reports what happened; it is not the truth. The pods in the Kubernetes API say which pod
holds which card. A message

- comes at least once. A message that was published before has the same `ce-id`;
- may be late. Of two messages of one source, the one with the greater (`ce-epoch`, `ce-sequence`)
  is newer. Sources have no order among each other;
- may never come. While NATS is down, a service keeps the newest states and a bounded number of
  events, and drops the oldest events beyond that number.

The data is JSON. [asyncapi.json](asyncapi.json) has its shape. New fields may be added at any time:
ignore what you do not know. A field that changes its meaning changes `v1` in the subject.
"""


def events_page() -> str:
    """The Markdown for people."""
    layout = StreamLayout("{cluster}")
    lines = [_INTRODUCTION, "## Headers\n", "| header | what it says |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in _HEADERS.items()]
    lines += ["\n## Where messages are kept\n", "| stream | subjects | kept |", "|---|---|---|"]
    lines += [f"| `{s.name}` | `{_period(s)}` | {_bounds(s)} |" for s in layout.streams]
    lines += [
        "\nNATS republishes a bucket's values on the subjects shown. A subscriber sees each",
        "change. A program that comes later reads the last value of each key from the bucket. Keys",
        "are `<node>.<vendor>` in `tessera-devices`, and `<node>` in `tessera-hints`.\n",
        "## Parameters\n", "| parameter | what it is |", "|---|---|",
    ]  # fmt: skip
    lines += [f"| `{name}` | {meaning} |" for name, meaning in PARAMETERS.items()]
    for event_type in CATALOGUE:
        lines += ["", *_section(event_type)]
    return "\n".join(lines) + "\n"


def asyncapi() -> str:
    """The AsyncAPI 3 document for machines."""
    structs = [type(event_type.example) for event_type in CATALOGUE]
    references, schemas = msgspec.json.schema_components(
        structs, ref_template="#/components/schemas/{name}"
    )
    schemas["Headers"] = _headers_schema()
    messages = {_name(t): _message(t, ref) for t, ref in zip(CATALOGUE, references, strict=True)}
    document = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tessera",
            "version": "1",
            "description": "What Tessera publishes on NATS. At least once, possibly late: news.",
        },
        "defaultContentType": "application/json",
        "channels": {_name(event_type): _channel(event_type) for event_type in CATALOGUE},
        "operations": {
            f"tell{_name(event_type)}": _operation(event_type) for event_type in CATALOGUE
        },
        "components": {"messages": messages, "schemas": schemas},
    }
    return msgspec.json.format(msgspec.json.encode(_tidy(document)), indent=2).decode() + "\n"


def _section(event_type: EventType) -> list[str]:
    data = msgspec.json.format(msgspec.json.encode(event_type.example), indent=2).decode()
    return [
        f"## `{event_type.type}`\n",
        f"`{event_type.address}`\n",
        f"{event_type.meaning} Published by the {event_type.publishers}. {event_type.when}\n",
        "```json",
        data,
        "```",
    ]


def _period(stream: Stream) -> str:
    return f"{stream.published}>" if stream.bucket else stream.subjects


def _bounds(stream: Stream) -> str:
    if stream.bucket:
        age = _time(stream.max_age_s)
        return f"the last value of each key for {age}, in the bucket `{stream.bucket}`"
    where = "in memory" if stream.memory else "on disk"
    size = f"{stream.max_bytes >> 20} MiB"
    return f"{_time(stream.max_age_s)} or {size}, {where}"


def _time(seconds: float) -> str:
    for unit, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit:
            count = round(seconds / unit)
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{seconds:g} s"


def _name(event_type: EventType) -> str:
    """`dev.tessera.allocation.granted` -> AllocationGranted."""
    return "".join(part.capitalize() for part in event_type.type.split(".")[2:])


def _channel(event_type: EventType) -> dict[str, Any]:
    name = _name(event_type)
    stream = (
        StreamLayout("default").homes(event_type.address.format(**sample(event_type)))[0].stream
    )
    channel: dict[str, Any] = {
        "address": event_type.address,
        "description": event_type.meaning,
        "messages": {name: {"$ref": f"#/components/messages/{name}"}},
        "parameters": {
            parameter: {"description": PARAMETERS[parameter]} for parameter in sample(event_type)
        },
        "x-nats-stream": stream.name,
    }
    if event_type.bucket:
        channel["x-nats-bucket"] = event_type.bucket
    return channel


def _operation(event_type: EventType) -> dict[str, Any]:
    name = _name(event_type)
    return {
        "action": "send",
        "summary": f"Told by the {event_type.publishers}. {event_type.when}",
        "channel": {"$ref": f"#/channels/{name}"},
        "messages": [{"$ref": f"#/channels/{name}/messages/{name}"}],
    }


def _message(event_type: EventType, payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": event_type.type,
        "title": event_type.meaning,
        "contentType": "application/json",
        "headers": {"$ref": "#/components/schemas/Headers"},
        "payload": payload,
        "examples": [
            {
                "headers": _example_envelope(event_type).headers(),
                "payload": msgspec.to_builtins(event_type.example),
            }
        ],
    }


def _example_envelope(event_type: EventType) -> Envelope:
    return Envelope(
        id="3f9a1c0b7d2e-42", source=f"/tessera/{event_type.by}/0", type=event_type.type,
        time="2026-11-21T12:00:00.000000Z", epoch=1_795_262_400_000, sequence=42,
    )  # fmt: skip


def _headers_schema() -> dict[str, Any]:
    return {
        "title": "Headers",
        "type": "object",
        "properties": {
            name: {"type": "string", "description": meaning} for name, meaning in _HEADERS.items()
        },
        "required": [name for name in _HEADERS if name not in _OPTIONAL],
    }


def _tidy(value: Any) -> Any:
    """Docstrings as one line of text each."""
    if isinstance(value, dict):
        return {
            key: " ".join(part.split()) if key == "description" and isinstance(part, str)
            else _tidy(part)
            for key, part in value.items()
        }  # fmt: skip
    if isinstance(value, list | tuple):
        return [_tidy(part) for part in value]
    return value


def write(folder: Path) -> None:
    """Write both files."""
    (folder / "events.md").write_text(events_page(), encoding="utf-8")
    (folder / "asyncapi.json").write_text(asyncapi(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
