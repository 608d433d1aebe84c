"""Decode one line of an event log into one typed event, natively with msgspec.

A line that is no whole event raises `ValueError`; the errors of msgspec are subclasses of it.

Two thirds of a task's line lie between the wanted parts: the values of accumulators and the executor's memory. Finding
the begin and the end of this middle is ten times as fast as parsing it. So `decode_brief_task` cuts the middle out
unparsed, and a line that is damaged only there still has its numbers. If the rest makes no sense, the whole line is
parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from autotrascale.monitor.eventlog import events

T = TypeVar("T")
Decode = Callable[[bytes], Struct | None]

_task = msgspec.json.Decoder(events.TaskEnd).decode
_full_task = msgspec.json.Decoder(events.FullTaskEnd).decode
_rare = {name: msgspec.json.Decoder(kind, strict=False).decode for name, kind in events.RARE.items()}
_progress = msgspec.json.Decoder(events.ProgressRecord).decode

# With their commas and brackets: JSON escapes quotes inside a text, so nothing else can look like these.
_CUT_FROM = b',"Accumulables":['
_CUT_TO = b',"Task Metrics":{'


def decode_line(line: bytes) -> Struct | None:
    """Return the event of a line, tasks in full; None for a blank line or an unread event."""
    return _full_task(line) if line.startswith(events.TASK_END) else decode_rare_event(line)


def decode_line_briefly(line: bytes) -> Struct | None:
    """Return the event of a line, tasks without accumulators, times of day, CPU time and memory."""
    return decode_brief_task(line) if line.startswith(events.TASK_END) else decode_rare_event(line)


def decode_line_without_tasks(line: bytes) -> Struct | None:
    """Return the event of a line; None for a task's end as well."""
    return None if line.startswith(events.TASK_END) else decode_rare_event(line)


def decode_brief_task(line: bytes) -> events.TaskEnd:
    """Return a task's end, decoded without the middle of its line.

    One byte is found many times as fast as a word, so brackets show the way. The first bracket opens the accumulators.
    After the next closing bracket, two braces end the task's info and the executor's memory.
    """
    begin = line.find(b"[") + 1
    if line.endswith(_CUT_FROM, 0, begin):
        close = line.find(b"]", begin)
        end = line.find(b"}", line.find(b"}", close) + 1) + 1
        if not line.startswith(_CUT_TO, end):
            end = line.find(_CUT_TO, close)
        if end > 0:
            try:
                return _task(line[: begin - len(_CUT_FROM)] + b"}" + line[end:])
            except msgspec.DecodeError:
                pass  # other fields stand behind the middle, or the line is damaged
    return _task(line)


def decode_rare_event(line: bytes) -> Struct | None:
    """Return any event but a task's end; None for a blank line or an unread event."""
    if line.startswith(events.ANY_EVENT):
        begin = len(events.ANY_EVENT)
        decode = _rare.get(line[begin : line.index(b'"', begin)])
        if decode:
            return decode(line)
        if not line.rstrip().endswith(b"}"):
            raise ValueError("the line is cut off")
        return None
    if line.startswith(events.ANY_PROGRESS):
        return events.QueryProgress(_progress(line))
    if line.strip():
        raise ValueError("the line is no event")
    return None


class EventReader:
    """Decodes lines, hands each event on, and counts the lines that are damaged or make no sense."""

    def __init__(self, decode: Decode = decode_line) -> None:
        self._decode = decode
        self.lines = 0
        self.damaged = 0
        self.first_damaged: int | None = None  # number of a line, from 1

    def read(self, lines: Iterable[bytes], take: Callable[[Struct], Sequence[T] | None]) -> Iterator[T]:
        """Yield everything that `take` returns for the events of `lines`.

        `take` raises `ValueError` for an event that makes no sense. Its line counts as damaged.
        """
        decode = self._decode
        for line in lines:
            self.lines += 1
            try:
                event = decode(line)
                results = () if event is None else take(event) or ()
            except (ValueError, RecursionError):
                self.damaged += 1
                self.first_damaged = self.first_damaged or self.lines
                continue
            if results:
                yield from results
