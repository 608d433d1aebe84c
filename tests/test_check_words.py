"""The measures of `scripts/check_words.py`, on small samples."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_SPEC = importlib.util.spec_from_file_location("check_words", ROOT / "scripts" / "check_words.py")
assert _SPEC is not None
assert _SPEC.loader is not None
words = importlib.util.module_from_spec(_SPEC)
sys.modules["check_words"] = words  # dataclasses look their module up
_SPEC.loader.exec_module(words)

SOURCE = '''
"""A module."""


class Rate:
    """The rate of one source."""

    @property
    def measured(self) -> float:
        return 1.0  # a comment


def measured() -> str:
    """What was measured, for whoever asks."""

    return "the run belongs to nobody on this machine"


def read_rate(text: str) -> float:
    """Return the rate in records per second."""
    return float(
        text
    )
'''


def findings_of(source: str, name: str = "package/rate.py") -> words.Findings:
    findings = words.Findings()
    words.measure_source(source, name, findings)
    return findings


@pytest.mark.parametrize("text", ["What it is.", "Of one job.", "  Whether it runs.", "— for whoever asks"])
def test_a_docstring_that_continues_its_name_begins_in_mid_sentence(text: str) -> None:
    assert words.begins_mid_sentence(text)


@pytest.mark.parametrize("text", ["Return the rate.", "The rate of a source.", "`of` names the source.", "..."])
def test_a_sentence_does_not(text: str) -> None:
    assert not words.begins_mid_sentence(text)


@pytest.mark.parametrize("name", ["told", "_measured", "kept", "__closed__"])
def test_bare_participles(name: str) -> None:
    assert words.is_bare_participle(name)


@pytest.mark.parametrize("name", ["read", "set", "seed", "feed", "is_closed", "measured_rate", "red", "tell"])
def test_names_that_are_no_bare_participles(name: str) -> None:
    assert not words.is_bare_participle(name)


def test_vague_pronouns_are_counted_as_whole_words() -> None:
    assert words.count_vague("Whoever asks sees what is there; the others wait.") == 3
    assert words.count_vague("What happens next is somebody else's affair.") == 2
    assert words.count_vague("Anyone may read what follows. The embodyings of one thatch.") == 0


def test_sentences_leave_out_code_tables_and_headings() -> None:
    markdown = """# A heading that nobody counts

The controller reads the log. It writes `what is here` to a file
that has two lines.

- A first item of a list.
- A second item of it; The last part of it.

| a table | nobody counts |

    whoever = "code"

```
whoever = "code"
```
[A link that nobody counts](page.md) leads to another page.
"""
    assert words.split_sentences(markdown) == [
        "The controller reads the log.",
        "It writes  x  to a file that has two lines.",
        "A first item of a list.",
        "A second item of it;",
        "The last part of it.",
        "x  leads to another page.",
    ]


def test_lines_of_code_leave_out_blanks_comments_and_docstrings() -> None:
    assert words.count_code_lines(SOURCE) == 10
    assert words.count_code_lines('"""Only a docstring."""\n# and a comment\n') == 0
    assert words.count_code_lines('x = """a\n\nb"""\n') == 3


def test_one_file_is_measured() -> None:
    found = findings_of(SOURCE)
    assert (found.docstrings, found.fragments) == (3, 1)
    assert (found.strings, found.vague_strings) == (4, 2)
    assert (found.functions, found.participles) == (2, 1)
    assert found.classes == {"Rate": 1}
    assert found.file_names == {"rate.py": 1}
    assert any("measured" in place for place in found.worst_places(10))


def test_a_long_file_is_found() -> None:
    assert findings_of("x = 1\n" * words.MAX_FILE_LINES).long_files == 0
    assert findings_of("x = 1\n" * (words.MAX_FILE_LINES + 1)).long_files == 1


def test_one_document_is_measured() -> None:
    findings = words.Findings()
    words.measure_document("The page is short. Nobody reads it.\n", "page.md", findings)
    words.measure_document("The " + "word " * 30 + "ends.\n", "page.md", findings)
    assert (findings.sentences, findings.words) == (3, 7 + 32)
    assert (findings.long_sentences, findings.vague_words) == (1, 1)
    assert all(place.startswith("page.md: ") for place in findings.worst_places(5))


def test_a_tree_is_measured(tmp_path: Path) -> None:
    for folder in ("a", "b", "c", "d"):
        (tmp_path / "package" / folder).mkdir(parents=True)
        (tmp_path / "package" / folder / "sizes.py").write_text("class Size:\n    pass\n")
    (tmp_path / "page.md").write_text("The page has one sentence.\n")
    for skipped in (".venv", "out", "data"):
        (tmp_path / skipped).mkdir()
        (tmp_path / skipped / "page.md").write_text("Nobody reads this page at all.\n")
    (tmp_path / "test_it.py").write_text("x = [1,\n 2]  # " + "fmt: skip\n")
    values = {measure.name: measure.value for measure in words.measure_tree(tmp_path, "package").measures()}
    assert values["class names defined more than once"] == 1
    assert values["file names that stand more than three times"] == 1
    assert values["vague pronouns in documents, per 1,000 words"] == 0
    assert values["lines of code in the package"] == 8
    assert values["`fmt: skip` comments"] == 1


def test_the_exit_code_says_whether_all_measures_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "rate.py").write_text('def read_rate() -> None:\n    """Read the rate."""\n')
    monkeypatch.setattr(words, "ROOT", tmp_path)
    assert words.main(["--package", "package"]) == 0
    assert not [line for line in capsys.readouterr().out.splitlines() if line.startswith("!")]
    (tmp_path / "package" / "told.py").write_text('def told() -> None:\n    """What was told."""\n')
    assert words.main(["--package", "package", "--worst", "5"]) == 1
    out = capsys.readouterr().out
    assert "! docstrings that begin in mid-sentence" in out
    assert "package/told.py:1 told: What was told." in out
