"""Log lines: one JSON object each, on stderr, an event with fields.

    log = logs.named("tessera.scheduler.bind")
    log.info("bound", pod="team/train-0", node="node-7", cards=2)

Lines of other libraries take the same form. The trace that the line belongs to is added when there
is one. Writing is as synchronous as stderr is: a reader of it that stops stops the process, which
is why nothing is logged per request at the level that is on by default.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TextIO

import msgspec

from tessera_runtime.tracing import tracing

_FIELDS: Final = "tessera_fields"
_TEXT_MOST: Final = 16_384
"""Characters of one field or traceback; more of it helps nobody and costs log storage."""


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Log:
    """Where one module's events go. Field names are free, `event` and `exc` apart."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, **fields: object) -> None:
        """What only a developer wants to see."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """What an operator wants to see later."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """What went wrong and is being dealt with."""
        self._write(logging.WARNING, event, fields)

    def alert(self, event: str, *, exc: BaseException | None = None, **fields: object) -> None:
        """What somebody has to look at; with `exc`, its traceback."""
        self._write(logging.ERROR, event, fields, exc)

    def _write(
        self, level: int, event: str, fields: dict[str, object], exc: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={_FIELDS: fields}, exc_info=exc)


def named(name: str) -> Log:
    """The log of a module or a part of a service, such as `tessera.agent.health`."""
    return Log(logging.getLogger(name))


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Whatever the fields are, this gives a line."""
        structured = hasattr(record, _FIELDS)
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "event": record.msg if structured else _message(record),
        }
        if trace := tracing.current_traceparent():
            line["trace_id"] = trace.split("-")[1]
        for key, value in getattr(record, _FIELDS, {}).items():
            line[key if key not in line else f"{key}_"] = _plain(value)
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = _cut(f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}")
            line["traceback"] = _cut("".join(traceback.format_exception(record.exc_info[1])))
        return msgspec.json.encode(line).decode()


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  (a library's bad format string must not lose its line)
        return f"{record.msg} {record.args}"


def _plain(value: object) -> object:
    if isinstance(value, str):
        return _cut(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=str)
        text = msgspec.json.encode(plain)
    except Exception:  # noqa: BLE001  (no field may lose its line)
        return _cut(repr(value))
    return plain if len(text) <= _TEXT_MOST else _cut(text.decode())


def _cut(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()  # lone surrogates do not fit into JSON
    return text if len(text) <= _TEXT_MOST else f"{text[:_TEXT_MOST]}... ({len(text)} characters)"


@contextmanager
def open_logs(
    service: str, level: LogLevel = LogLevel.INFO, *, stream: TextIO | None = None
) -> Generator[None]:
    """Send every log line of this process to `stream` (stderr) until left; then as it was."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonLines(service))
    root = logging.getLogger()
    before, level_before = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        root.setLevel(level_before)
        root.handlers[:] = before
