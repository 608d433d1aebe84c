"""One line of a log → one event, decoded natively. What is no event raises `ValueError`, of which msgspec's errors are.

Two thirds of a task's line are between the parts that are wanted: what accumulators were at, one by one, and the
executor's memory. Finding where that begins and ends is ten times as fast as parsing it. So it is cut out, unparsed: a
line that is damaged in there alone still has its numbers. If the rest makes no sense, the whole line is tried.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from autotrascale.monitor.eventlog import events

_task = msgspec.json.Decoder(events.TaskEnd).decode
_full_task = msgspec.json.Decoder(events.FullTaskEnd).decode
_rare = {name: msgspec.json.Decoder(kind, strict=False).decode for name, kind in events.RARE.items()}
_progress = msgspec.json.Decoder(events.ProgressRecord).decode

# With their commas and brackets: in a text of JSON quotes are escaped, so nothing else can look like these.
_CUT_FROM = b',"Accumulables":['
_CUT_TO = b',"Task Metrics":{'


def decode_brief_task(line: bytes) -> events.TaskEnd:
    """One byte is found many times as fast as a word, so brackets show the way: the first one opens the accumulators,
    two braces after the next to close are the ends of the task's info and of what the executor's memory was at."""
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
                pass  # other fields come behind it, or it is damaged
    return _task(line)


def decode_line(line: bytes) -> Struct | None:
    """Of any event, tasks with all that is known of them. None is one that nobody reads, or a blank line."""
    return _full_task(line) if line.startswith(events.TASK_END) else decode_rare_event(line)


def decode_rare_event(line: bytes) -> Struct | None:
    """Of any event but a task's end. None is one that nobody reads, or a blank line."""
    if line.startswith(events.ANY_EVENT):
        begin = len(events.ANY_EVENT)
        decode = _rare.get(line[begin : line.index(b'"', begin)])
        if decode:
            return decode(line)
        if not line.rstrip().endswith(b"}"):
            raise ValueError("cut off")
        return None
    if line.startswith(events.ANY_PROGRESS):
        return events.QueryProgress(_progress(line))
    if line.strip():
        raise ValueError("no event")
    return None
