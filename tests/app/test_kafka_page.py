"""What docs/how-to/kafka.md tells people to type and to write is what programs and job files take."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml

from autotrascale.app.job_file import read_job_file
from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.common.source_settings import KafkaTopic
from benchmarks.workloads import topic_load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "kafka.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line) for line in re.findall(r"^    (\.venv/bin/\S.*|scripts/\S.*)$", PAGE, re.M)]


def said(*beginning: str) -> list[list[str]]:
    return [words[len(beginning) :] for words in COMMANDS if words[: len(beginning)] == list(beginning)]


def test_the_topics_that_are_filled_are_those_that_the_job_files_read() -> None:
    filled = {}
    for words in said(".venv/bin/python", "-m", "benchmarks.workloads.topic_load"):
        chosen = topic_load.make_parser().parse_args(words)
        assert len(topic_load.make_values(chosen.kind, np.arange(3))) == 3
        filled[chosen.servers, chosen.topic] = chosen.kind
    for (path,) in said(".venv/bin/autotrascale", "tune"):
        file = read_job_file(ROOT / path)
        assert file.spark is not None
        (source,) = file.spark.sources.values()
        assert (source.kafka.bootstrap, source.kafka.topic) in filled
        plain = read_job_file(ROOT / path.replace("-kafka", ""))
        assert plain.spark is not None
        assert (file.spark.job, file.source_rates) == (plain.spark.job, plain.source_rates)
    assert len(filled) == 2


def test_the_broker_is_started_and_the_program_is_run_as_they_are() -> None:
    ((port, _),) = said("scripts/kafka.sh", "run")
    (words,) = said(".venv/bin/autotrascale", "run")
    program = words[words.index("--") + 1 :]
    script = next(word for word in program if word.endswith(".py"))
    assert (ROOT / script).is_file()
    assert f"127.0.0.1:{port}" in program


def test_the_settings_are_those_that_there_are() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    assert set(yaml.safe_load(block)["spark"]["sources"]["source"]["kafka"]) <= set(KafkaTopic.__dataclass_fields__)
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.M)) == set(KafkaTopic.__dataclass_fields__)


@pytest.mark.parametrize(
    ("sources", "line"),
    [
        ({"clicks": {"kafka": {"bootstrap": "a:1", "topic": "t"}}}, "spark.sources.clicks: "),
        ({"source": {}}, "spark.sources.source.kafka: is missing"),
        ({"source": {"kafka": {"bootstrap": "a:1"}}}, "spark.sources.source.kafka.topic: is missing"),
        (
            {"source": {"kafka": {"bootstrap": "a", "topic": "t"}}},
            "kafka.bootstrap: is not a list of servers (seen: 'a')",
        ),
        (
            {"source": {"kafka": {"bootstrap": "a:1", "topic": "t", "begin": "now"}}},
            "spark.sources.source.kafka.begin: ",
        ),
        ({"source": {"kafka": {"bootstrap": "a:1", "topics": "t"}}}, "did you mean topic?"),
        ({"source": {"pulsar": {}}}, "spark.sources.source.pulsar: is not a known key"),
    ],
)
def test_a_source_that_cannot_be_is_one_line_with_the_files_name(
    sources: dict[str, object], line: str, tmp_path: Path
) -> None:
    whole = yaml.safe_load((ROOT / "configs" / "yahoo-kafka.yaml").read_text())
    whole["spark"]["sources"] = sources
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(whole))
    with pytest.raises(InputError) as refused:
        read_job_file(path)
    assert str(refused.value).startswith(str(path))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
