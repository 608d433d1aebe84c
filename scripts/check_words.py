"""Measure how plainly the project is written, and fail where a measure is above its bound.

    python scripts/check_words.py                             print the table of measures
    python scripts/check_words.py --worst 20                  add the 20 worst places
    python scripts/check_words.py --package autotrascale/web  measure one folder of the package

The measures look at docstrings, messages, names and sizes in the package, and at the prose of all Markdown documents.
The bounds are close to the values of optuna, httpx, distributed and the Flink operator documentation. A high value
shows a place that deserves a second look; a reader decides how to rewrite it.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_FILE_LINES = 400
MAX_CODE_LINES = 41_750  # the size of today; lower it with the package
MAX_SENTENCE_WORDS = 30
MAX_SAME_FILE_NAME = 3
MIN_STRING_WORDS = 5  # a shorter string is a key or a label


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A docstring whose first word is one of these continues its function's name instead of saying a sentence.
FRAGMENT_WORDS = _word_set(
    """what whether who whom whose how which where when of as one none those that it its they by for so with without
    else more less from at in on to and or up"""
)
VAGUE_WORDS = "whoever|whatever|nobody|somebody|anybody|whom|one that|one who|the others|those of"
WORDS_AFTER_WHAT = "is|was|it|they|a|the|no|has|had|can|comes|came|takes|took|would|runs|ran|stands|stood|happens|costs"
VAGUE = re.compile(rf"\b(?:{VAGUE_WORDS}|what (?:{WORDS_AFTER_WHAT}))\b", re.IGNORECASE)
# Participles that do not end in "ed". Forms that equal their verb (cut, put, read, run, set) are verbs here.
IRREGULAR_PARTICIPLES = _word_set(
    """begun bent bitten born bought broken brought built caught chosen dealt done drawn driven fallen fed felt
    forgotten fought found given gone grown heard held hidden kept known laid led left lent lost made meant met paid
    risen said seen sent shown slept sold sought spent spoken stood sworn swept taken taught thought thrown told torn
    understood undone woken won worn written"""
)
VERBS_IN_ED = _word_set("bleed breed embed exceed feed need proceed seed shed shred speed succeed wed weed")
SKIPPED_FOLDERS = frozenset({"out", "build", "node_modules", "spark-warehouse", "data"})

_CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)
_CODE_OR_LINK = re.compile(r"`[^`]*`|\[[^\]]*\]\([^)]*\)|<!--.*?-->|https?://\S+", re.DOTALL)
_LIST_ITEM = re.compile(r"\n(?=\s*(?:[-*]|\d+\.)\s)")
_BULLET = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`*(\d])")
_FMT_SKIP = re.compile(r"#\s*fmt:\s*(?:skip|off)\b")


@dataclass(frozen=True)
class Measure:
    """One row of the table: a value and the highest value that passes."""

    name: str
    value: float
    bound: float
    unit: str = ""

    @property
    def passes(self) -> bool:
        return self.value <= self.bound


@dataclass
class Findings:
    """Counts of one run, and the places that raised them with a weight for sorting."""

    docstrings: int = 0
    fragments: int = 0
    strings: int = 0
    vague_strings: int = 0
    functions: int = 0
    participles: int = 0
    long_files: int = 0
    code_lines: int = 0
    fmt_skips: int = 0
    words: int = 0
    vague_words: int = 0
    sentences: int = 0
    long_sentences: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    file_names: Counter[str] = field(default_factory=Counter)
    places: list[tuple[float, str]] = field(default_factory=list)

    def measures(self) -> list[Measure]:
        repeated_names = sum(count > MAX_SAME_FILE_NAME for count in self.file_names.values())
        return [
            Measure("docstrings that begin in mid-sentence", percent(self.fragments, self.docstrings), 3.0, "%"),
            Measure("strings with vague pronouns", percent(self.vague_strings, self.strings), 1.0, "%"),
            Measure("vague pronouns in documents, per 1,000 words", 10 * percent(self.vague_words, self.words), 0.5),
            Measure("sentences over 30 words in documents", percent(self.long_sentences, self.sentences), 5.0, "%"),
            Measure("class names defined more than once", sum(count > 1 for count in self.classes.values()), 0),
            Measure("file names that stand more than three times", repeated_names, 2),
            Measure("functions named by a bare participle", percent(self.participles, self.functions), 2.0, "%"),
            Measure(f"files over {MAX_FILE_LINES} lines", self.long_files, 0),
            Measure("lines of code in the package", self.code_lines, MAX_CODE_LINES),
            Measure("`fmt: skip` comments", self.fmt_skips, 29),
        ]

    def worst_places(self, count: int) -> list[str]:
        ranked = sorted(self.places, key=lambda place: -place[0])
        return [text for _, text in ranked[:count]]


def percent(part: int, whole: int) -> float:
    return 100 * part / max(1, whole)


def begins_mid_sentence(docstring: str) -> bool:
    """Return whether the first word only makes sense after the name of the function."""
    first_word = re.match(r"[\W_]*(\w+)", docstring)
    if first_word is None or docstring.startswith("`"):
        return False
    return first_word[1].lower() in FRAGMENT_WORDS


def is_bare_participle(name: str) -> bool:
    """Return whether a function's name is a participle without a noun, such as `told` or `_measured`."""
    word = name.strip("_")
    if word in IRREGULAR_PARTICIPLES:
        return True
    return len(word) > 3 and word.isalpha() and word.endswith("ed") and word not in VERBS_IN_ED


def count_vague(text: str) -> int:
    return len(VAGUE.findall(text))


def split_sentences(markdown: str) -> list[str]:
    """Return the sentences of a document without code, tables, headings and fragments of one or two words."""
    text = _CODE_OR_LINK.sub(" x ", _CODE_BLOCK.sub(" ", markdown))
    sentences: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if line.strip()]
        lines = [line for line in lines if not line.lstrip().startswith(("#", "|", "<", ":::", "==="))]
        if not lines or lines[0].startswith(("    ", "\t")):
            continue
        for item in _LIST_ITEM.split("\n".join(lines)):
            prose = _BULLET.sub("", item).replace("\n", " ")
            sentences += [each.strip() for each in _SENTENCE_END.split(prose) if len(each.split()) > 2]
    return sentences


def count_code_lines(source: str) -> int:
    """Return the number of lines with code: blank lines, comments and docstrings do not count."""
    docstring_lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            docstring_lines |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines)


def measure_source(source: str, name: str, findings: Findings) -> None:
    """Add one Python file to `findings`. `name` is its path in the report."""
    line_count = len(source.splitlines())
    if line_count > MAX_FILE_LINES:
        findings.long_files += 1
        findings.places.append((5.0, f"{name}: {line_count} lines"))
    findings.code_lines += count_code_lines(source)
    findings.file_names[Path(name).name] += Path(name).name != "__init__.py"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            findings.classes[node.name] += 1
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _measure_function_name(node, name, findings)
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            _measure_docstring(node, name, findings)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            _measure_string(node.value, f"{name}:{node.lineno}", findings)


def measure_document(text: str, name: str, findings: Findings) -> None:
    """Add one Markdown document to `findings`. `name` is its path in the report."""
    for sentence in split_sentences(text):
        word_count, vague = len(sentence.split()), count_vague(sentence)
        findings.sentences += 1
        findings.words += word_count
        findings.vague_words += vague
        findings.long_sentences += word_count > MAX_SENTENCE_WORDS
        if vague or word_count > MAX_SENTENCE_WORDS:
            findings.places.append((vague + word_count / MAX_SENTENCE_WORDS, f"{name}: {sentence[:150]}"))


def add_repeated_names(findings: Findings) -> None:
    findings.places += [(4.0, f"class {name}: {n} definitions") for name, n in findings.classes.items() if n > 1]
    files = findings.file_names.items()
    findings.places += [(3.0, f"file {name}: {n} times") for name, n in files if n > MAX_SAME_FILE_NAME]


def find_files(root: Path, pattern: str) -> Iterator[Path]:
    """Yield the project's own files: hidden folders, built output and data are left out."""
    for path in sorted(root.rglob(pattern)):
        folders = path.relative_to(root).parts[:-1]
        if not any(part.startswith(".") or part in SKIPPED_FOLDERS or part.endswith(".egg-info") for part in folders):
            yield path


def measure_tree(root: Path, package: str) -> Findings:
    """Return the findings for the Python files below `package` and for all documents below `root`."""
    findings = Findings()
    for path in sorted((root / package).rglob("*.py")):
        measure_source(path.read_text(encoding="utf-8"), str(path.relative_to(root)), findings)
    for path in find_files(root, "*.py"):
        findings.fmt_skips += len(_FMT_SKIP.findall(path.read_text(encoding="utf-8")))
    for path in find_files(root, "*.md"):
        measure_document(path.read_text(encoding="utf-8"), str(path.relative_to(root)), findings)
    add_repeated_names(findings)
    return findings


def format_row(measure: Measure) -> str:
    mark = " " if measure.passes else "!"
    return f"{mark} {measure.name:46} {measure.value:9,.1f} {measure.unit:1}  (at most {measure.bound:,g})"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="print the N worst places")
    parser.add_argument("--package", default="autotrascale", metavar="FOLDER", help="folder with the Python files")
    options = parser.parse_args(arguments)
    findings = measure_tree(ROOT, options.package)
    measures = findings.measures()
    for measure in measures:
        print(format_row(measure))
    for place in findings.worst_places(options.worst):
        print("   ", place)
    return 0 if all(measure.passes for measure in measures) else 1


def _measure_function_name(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, findings: Findings) -> None:
    if any(_decorator_name(each) in ("property", "cached_property", "setter") for each in node.decorator_list):
        return  # a property is a value, and a participle may describe a value
    findings.functions += 1
    if is_bare_participle(node.name):
        findings.participles += 1
        findings.places.append((1.5, f"{name}:{node.lineno} function {node.name}"))


def _decorator_name(decorator: ast.expr) -> str:
    return ast.unparse(decorator).rpartition(".")[2]


def _measure_docstring(
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str, findings: Findings
) -> None:
    docstring = ast.get_docstring(node)
    if not docstring:
        return
    findings.docstrings += 1
    if begins_mid_sentence(docstring):
        findings.fragments += 1
        findings.places.append((2.0, f"{name}:{node.lineno} {node.name}: {docstring.splitlines()[0][:110]}"))


def _measure_string(text: str, place: str, findings: Findings) -> None:
    if len(text.split()) < MIN_STRING_WORDS:
        return
    findings.strings += 1
    if count_vague(text):
        findings.vague_strings += 1
        findings.places.append((1.0, f"{place} {text.strip()[:130]!r}"))


if __name__ == "__main__":
    sys.exit(main())
