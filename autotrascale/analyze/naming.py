"""Names of operators from the nodes of a plan, and the nodes that one stage ran.

    node in Spark's words                                               name
    MicroBatchScan[…] class …KafkaSourceProvider$KafkaScan              read kafka
    HashAggregate(keys=[window#22-T1000ms, word#2], functions=[count])  count by window, word
    StreamingSymmetricHashJoin [word#2], [word#67], Inner, …            join by word
    !FlatMapGroupsInPandasWithState f(…)#672, [word#2], …               apply f by word
    WriteToDataSourceV2 MicroBatchWrite[epoch: 1, writer: Noop…]        write noop

Numbers, paths and places of checkpoints are left out: they differ from batch to batch and from run to run.

A plan is cut into parts at its exchanges, and a stage runs one part. Where the stage names the shuffle that it writes,
the part is found by the number of this shuffle. Adaptive execution renumbers shuffles. Then a part fits that reads as
many other parts, and has the nodes that the stage names. Where several parts fit, the part is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autotrascale.analyze.plan_tree import Stage, describe_shape, find_shuffle, find_shuffles
from autotrascale.monitor.eventlog.events import Node
from autotrascale.monitor.marks import extract_counting_mark, extract_naming_marks, find_naming_names

_MARK = "CollectMetrics"
_LONGEST = 60  # characters of one name
_KEYS = 3  # keys in a name, and functions
_MOST_PARTS = 200  # of a plan, or stages of a job: larger plans are not matched
_COLUMN = re.compile(r"([\w.]+)#\d+L?(?:-T\d+ms)?")
_CALL = re.compile(r"(?:^|[\s\[(,])(\w+)\(")
_CLASS = re.compile(r"class ([\w.$]+)")
_WRITER = re.compile(r"writer: ([\w.$]+)")
_PREFIX = re.compile(r"^(?:partial|merge|finalmerge)_")
_PARTIAL = re.compile(r"functions=\[partial_")
_SUFFIX = re.compile(
    r"(?:StreamingWrite|SourceProvider|MicroBatchStream|TableProvider|DataSourceV2|Provider|Source|Table|Write|Scan)$"
)
_ADDED = re.compile(r"^WholeStageCodegen|^Exchange|^AQEShuffleRead|^SQLExecution")  # to a plan, when it is run
_COMMAND = re.compile(r"Command \S+, \w+, (\w+)")


def shorten_plan(plan: Node) -> None:
    """Replace the text of each node by its name; marks and the numbers of shuffles stay.

    A second call changes nothing: Spark repeats a node's name in its text, and a name does not.
    """
    todo = [plan]
    while todo:
        node = todo.pop()
        node.metrics = []  # their numbers differ from batch to batch
        if node.nodeName == _MARK:
            node.simpleString = node.simpleString.partition(",")[0]
        elif node.nodeName == "Exchange":
            number = find_shuffle(node)
            node.simpleString = "" if number is None else f"[plan_id={number}]"
        elif marks := extract_counting_mark(node.simpleString) or extract_naming_marks(node.simpleString):
            node.simpleString = marks
        elif (node.nodeName.split() or ["?"])[0] in node.simpleString:
            node.simpleString = describe_node(node.nodeName, node.simpleString)
        todo += node.children


def find_marked_name(part: Sequence[Node]) -> str:
    """Return the name that naming marks give to a part of a plan; empty without marks.

    The times of several marks in one stage cannot be separated. So the stage has all their names, in the order of the
    data.
    """
    names = [name for node in reversed(part) for name in find_naming_names(node.simpleString)]
    return _short(" + ".join(dict.fromkeys(names)))


def describe_node(name: str, text: str) -> str:
    """Return the name of a node.

    `describe_node("HashAggregate", "HashAggregate(keys=[word#2], functions=[count(1)])")` is `count by word`.
    """
    for pattern, name_node in _NAMERS:
        if pattern.search(name):
            return _short(name_node(name, text))
    return _short(_spaced(name.split("(")[0]))


@dataclass
class PlanPart:
    """The nodes of a plan between exchanges, from the end to the beginning. `number` is of the shuffle it writes."""

    number: int | None
    writes: bool  # a shuffle; otherwise the part is the end of the plan, or is broadcast
    nodes: list[Node] = field(default_factory=list)
    below: list[int] = field(default_factory=list)  # numbers of the parts whose shuffles it reads


def find_part(stage: Stage, stages: Mapping[int, Stage], plan: Node) -> list[Node]:
    """Return the nodes of the part that the stage ran; empty where the part is in doubt."""
    parts = _parts(plan)
    number, _ = find_shuffles(stage)
    for part in parts:
        if part.writes and part.number == number:
            return part.nodes
    if len(parts) > _MOST_PARTS or len(stages) > _MOST_PARTS:
        return []
    named = {rdd.node for rdd in stage.rdds if rdd.node[:1].isupper() and not _ADDED.search(rdd.node)}
    writes = any(rdd.shuffle == number for rdd in stage.rdds)
    form = describe_shape(stage.number, _parents(stages))
    fitting = [
        part
        for at, part in enumerate(parts)
        if part.writes == writes
        and describe_shape(at, lambda at: parts[at].below) == form
        and named <= {node.nodeName for node in part.nodes}
    ]
    return fitting[0].nodes if len(fitting) == 1 else []


def nodes_by_name(plan: Node) -> dict[str, Node]:
    """Return the first node of each name, from the end of the plan."""
    found: dict[str, Node] = {}
    for node in _walk(plan):
        found.setdefault(node.nodeName, node)
    return found


def _parts(plan: Node) -> list[PlanPart]:
    parts = [PlanPart(None, False)]
    todo = [(plan, 0)]
    while todo:
        node, at = todo.pop()
        inner = at
        if node.nodeName in ("Exchange", "BroadcastExchange"):
            inner, shuffles = len(parts), node.nodeName == "Exchange"
            parts.append(PlanPart(find_shuffle(node), shuffles))
            if shuffles:
                parts[at].below.append(inner)
        else:
            parts[at].nodes.append(node)
        todo += [(child, inner) for child in reversed(node.children)]
    return parts


def _parents(stages: Mapping[int, Stage]) -> Callable[[int], Sequence[int]]:
    # Spark gives a stage's parents smaller numbers, so a damaged log cannot make a cycle here.
    return lambda number: [parent for parent in stages[number].parents or () if parent < number and parent in stages]


def _walk(plan: Node) -> Iterator[Node]:
    todo = [plan]
    while todo:
        node = todo.pop()
        yield node
        todo += reversed(node.children)


# --- names of nodes ---------------------------------------------------------------------------------------------------


def _scan(_: str, text: str) -> str:
    """Name a source by its class: a plan says nothing else about a source."""
    found = _CLASS.search(text)
    if found is None:
        return "read python" if "Python" in text else "read a stream"
    last = found[1].rpartition(".")[2].partition("$")[0]
    return f"read {_spaced(_SUFFIX.sub('', last))}"


def _file(name: str, _: str) -> str:
    # `Scan parquet db.table`: the place of the files differs from batch to batch.
    return f"read {' '.join(name.split('(')[0].split()[1:]) or 'files'}"


def _rows(name: str, _: str) -> str:
    return "read cached rows" if name.startswith("InMemory") else "read rows"


def _aggregate(_: str, text: str) -> str:
    keys, functions = _bracket(text, "keys=["), _bracket(text, "functions=[")
    names = list(dict.fromkeys(_PREFIX.sub("", name) for name in _calls(functions))) or ["group"]
    partly = "partial " if _PARTIAL.search(text) else ""
    return f"{partly}{_list_names(names)}{_by(_columns(keys))}"


def _join(_: str, text: str) -> str:
    return f"join{_by(_columns(_bracket(text, '[')))}"


def _state(name: str, text: str) -> str:
    action = "drop duplicates" if "Deduplicate" in name else "keep state" if "State" in name else _spaced(name)
    return f"{action}{_by(_columns(_bracket(text, '[')))}"


def _apply(name: str, text: str) -> str:
    _, _, arguments = text.partition(" ")
    calls = _calls(" " + arguments)
    grouped = re.match(r"\[([^\]]*)\], \w+\(", arguments) or re.search(r"\)#\d+L?, \[([^\]]*)\]", arguments)
    keys = _columns(grouped[1]) if grouped and "Group" in name else []
    return f"apply {calls[0] if calls else 'a function'}{_by(keys)}"


def _generate(_: str, text: str) -> str:
    calls = _calls(text.partition(" ")[2] and " " + text.partition(" ")[2])
    return calls[0] if calls else "generate"


def _write(_: str, text: str) -> str:
    found = _WRITER.search(text)
    last = found[1].rpartition(".")[2].partition("$")[0] if found else ""
    return f"write {_spaced(_SUFFIX.sub('', last)) or 'rows'}"


def _insert(_: str, text: str) -> str:
    found = _COMMAND.search(text)
    return f"write {found[1].lower() if found else 'files'}"


def _sort(_: str, text: str) -> str:
    return f"sort{_by(_columns(_bracket(text, '[')))}"


_NAMERS: tuple[tuple[re.Pattern[str], Callable[[str, str], str]], ...] = (
    (re.compile(r"^(?:MicroBatch|RealTimeStream|Continuous|Batch)Scan"), _scan),
    (re.compile(r"^Scan ExistingRDD|^InMemoryTableScan|^LocalTableScan|^RDDScan"), _rows),
    (re.compile(r"^Scan "), _file),
    (re.compile(r"Join$|^CartesianProduct"), _join),
    (re.compile(r"Aggregate$"), _aggregate),
    (re.compile(r"GroupsIn|CoGroup|TransformWith|GroupsWithState|Python|^MapIn|Pandas"), _apply),
    (re.compile(r"Deduplicate|State"), _state),
    (re.compile(r"^Generate$"), _generate),
    (re.compile(r"^WriteToDataSourceV2"), _write),
    (re.compile(r"^Execute .*Command"), _insert),
    (re.compile(r"^Sort$"), _sort),
)


def _bracket(text: str, opening: str) -> str:
    """Return the text inside the bracket that `opening` ends with, inner brackets included; empty without it."""
    begin = text.find(opening)
    if begin < 0:
        return ""
    begin += len(opening)
    depth = 1
    for at in range(begin, len(text)):
        depth += (text[at] == "[") - (text[at] == "]")
        if depth == 0:
            return text[begin:at]
    return text[begin:]


def _columns(text: str) -> list[str]:
    # Spark calls a key that is an expression _groupingexpression.
    return list(dict.fromkeys(name.replace("_groupingexpression", "expression") for name in _COLUMN.findall(text)))


def _calls(text: str) -> list[str]:
    """Return the functions at the outermost level: `count(1), sum(abs(x))` gives count and sum."""
    outer, depth = [], 0
    for letter in text:
        depth -= letter == ")"
        outer.append(letter if depth <= 0 else " ")
        depth += letter == "("
    return _CALL.findall("".join(outer))


def _by(columns: Sequence[str]) -> str:
    return f" by {_list_names(columns)}" if columns else ""


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _KEYS} more" if len(names) > _KEYS else ""
    return ", ".join(names[:_KEYS]) + more


def _spaced(name: str) -> str:
    """Return RatePerMicroBatch as rate per micro batch."""
    return re.sub(r"[\W_]+", " ", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)).strip().lower()


def _short(text: str) -> str:
    # A name is a single line of text with a bounded length.
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"
