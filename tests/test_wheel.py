"""The first minute after `pip install autotrascale`: the wheel is built, installed into an environment of its own that
has what it declares and nothing else, and used in an empty folder, without a checkout, Spark or any other extra."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
LOG = str(ROOT / "tests" / "analyze" / "logs" / "plain")
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of a copy: building leaves things behind. Nothing is fetched for it."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "autotrascale", source / "autotrascale", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(source)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return source / done.stdout.split()[-1]


def needed(name: str, found: dict[str, importlib.metadata.Distribution]) -> None:
    """A distribution and all that it asks for, as they are installed here."""
    if name in found:
        return
    found[name] = importlib.metadata.distribution(name)
    for line in found[name].requires or ():
        asked = Requirement(line)
        if asked.marker is None or asked.marker.evaluate({"extra": ""}):
            needed(asked.name, found)


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`autotrascale` of an environment with the core's packages, each a link to where it is installed here."""
    home = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    packages = next((home / "lib").glob("python3*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
        info = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(info))
    core: dict[str, importlib.metadata.Distribution] = {}
    for line in metadata.get_all("Requires-Dist") or ():
        asked = Requirement(line)
        if asked.marker is None:
            needed(asked.name, core)
    for distribution in core.values():
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
            link = packages / top
            if not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(top))))
    script = home / "bin" / "autotrascale"
    script.write_text(f"#!{home}/bin/python\nfrom autotrascale.cli.main import main\nmain()\n")
    script.chmod(0o755)
    return script


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty")


def run(command: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(command), *words], cwd=folder, capture_output=True, text=True, env=clean(command, folder), timeout=120
    )


def clean(command: Path, folder: Path) -> dict[str, str]:
    """No Java and no checkout either."""
    return {"PATH": str(command.parent), "HOME": str(folder)}


def test_it_holds_the_program_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"autotrascale"}
    for wanted in ("autotrascale/py.typed", "autotrascale/app/scaffold/wordcount.yaml"):
        assert wanted in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if "test_" in name or name.endswith(".pyc")]
    head = message_from_bytes(metadata.encode())
    assert head["License-Expression"] == "Apache-2.0"
    assert len(head.get_all("Classifier") or ()) > 5
    assert head.get_all("Project-URL")


def test_the_demo_writes_in_its_own_folder_alone(command: Path, folder: Path) -> None:
    done = run(command, folder, "demo")
    assert done.returncode == 0, done.stderr
    assert "simulated" in done.stderr
    assert "leaving out Spark: " in done.stderr
    assert "autotrascale[mlflow]" in done.stderr
    assert "chosen" in done.stdout
    assert "next:" in done.stdout
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) == [
        "autotrascale-demo",
        "autotrascale-demo/wordcount-simulated.yaml",
        "autotrascale-demo/wordcount.yaml",
    ]


def test_a_job_file_is_made_and_tuned(command: Path, folder: Path) -> None:
    made = run(command, folder, "init", "mine.yaml", "--yes", "--name", "mine", "--format", "json")
    assert made.returncode == 0, made.stderr
    answer = json.loads(made.stdout)
    assert answer["next"] == "autotrascale tune mine.yaml"
    tuned = run(command, folder, *answer["next"].split()[1:], "--format", "json")
    assert tuned.returncode == 0, tuned.stderr
    assert json.loads(tuned.stdout)["met_target"] is True


def test_the_doctor_tells_what_is_missing(command: Path, folder: Path) -> None:
    done = run(command, folder, "doctor", "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    checks = {each["check"]: each for each in json.loads(done.stdout)["checks"]}
    assert checks["packages: core"]["state"] == "ok"
    assert "pyspark is missing" in checks["packages: spark"]["seen"]
    assert checks["packages: spark"]["remedy"] == "pip install 'autotrascale[spark]'"


def test_the_doctor_of_a_job_on_spark_without_spark(
    command: Path, folder: Path, told: list[tuple[int | None, str, str]]
) -> None:
    assert told  # which puts the job file there
    done = run(command, folder, "doctor", "--job", "spark.yaml", "--deep", "--format", "json")
    assert done.returncode == 1, done.stderr
    checks = {each["check"]: each for each in json.loads(done.stdout)["checks"]}
    for name in ("packages: spark", "a query on Spark"):
        assert checks[name]["state"] == "problem"
        assert "pip install 'autotrascale[spark]'" in checks[name]["remedy"], checks[name]
    assert "there is no Java" in checks["java"]["seen"]


# Every verb that needs an extra, and one that reads a store without one.
MISSING = [
    (["demo", "--engine", "spark", "--to", "other"], "pyspark"),
    (["tune", "spark.yaml"], "'autotrascale[spark]'"),
    (["init", "--event-log", LOG], "'autotrascale[spark]'"),
    (["snapshot", "--event-log", LOG], "'autotrascale[spark]'"),
    (["snapshot", "--event-log", "nowhere"], "'autotrascale[spark]'"),
    (["run", "--", "app.py"], "'autotrascale[spark]'"),
    (["autoscale", "spark.yaml"], "'autotrascale[spark]'"),
    (["autoscale", "spark.yaml", "--advise", "--event-log", LOG], "'autotrascale[spark]'"),
    (["serve"], "'autotrascale[service]'"),
    (["runs", "ls"], "--store: is none"),
    (["models", "ls"], "--store: is none"),
    (["explain", "last"], "--store: is none"),
    (["models", "ls", "--store", "sqlite:///x.db"], "'autotrascale[mlflow]'"),
    (["metrics", "--metrics", "influx.yaml"], "'autotrascale[influxdb]'"),
]
# One command after the other in one process: starting them one by one takes a second each.
ONE_BY_ONE = """
import contextlib, io, json, sys, traceback
from autotrascale.cli.main import main
for words in json.load(sys.stdin):
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


@pytest.fixture(scope="module")
def told(command: Path, folder: Path) -> list[tuple[int | None, str, str]]:
    """Of each of the commands above: exit code, output, and what was said beside it."""
    (folder / "app.py").write_text("")
    (folder / "spark.yaml").write_text(
        yaml.safe_dump(
            {
                "job": "a",
                "p_max": 2,
                "source_rates": {"source": 1.0},
                "target": {"latency_seconds": 1.0},
                "spark": {"job": "autotrascale.execute.spark.jobs.wordcount:WordCount"},
            }
        )
    )
    influx = {"store": {"kind": "influxdb", "url": "http://127.0.0.1:1", "bucket": "b"}}
    (folder / "influx.yaml").write_text(yaml.safe_dump(influx))
    done = subprocess.run(
        [str(command.with_name("python")), "-c", ONE_BY_ONE],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        input=json.dumps([words for words, _ in MISSING]),
        env=clean(command, folder),
    )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("number", range(len(MISSING)), ids=[" ".join(words[:2]) for words, _ in MISSING])
def test_what_is_missing_is_one_line(told: list[tuple[int | None, str, str]], folder: Path, number: int) -> None:
    (code, out, err), (_, says) = told[number], MISSING[number]
    assert code == 1, err
    assert "Traceback" not in err
    (line,) = [each for each in err.splitlines() if each.startswith("autotrascale: ")]
    assert says in line
    assert out == ""
    assert not (folder / "other").exists()


@pytest.fixture
def crippled(command: Path) -> Iterator[list[str]]:
    """The same environment, installed without the packages that every part needs."""
    packages = next((command.parents[1] / "lib").glob("python3*/site-packages"))
    hidden = [packages / name for name in ("numpy", "yaml")]
    for path in hidden:
        path.rename(path.with_name(f"{path.name}.away"))
    yield [path.name for path in hidden]
    for path in hidden:
        path.with_name(f"{path.name}.away").rename(path)


def test_without_its_own_packages_it_says_which(command: Path, folder: Path, crippled: list[str]) -> None:
    looked = run(command, folder, "doctor")
    assert looked.returncode == 1
    assert "Traceback" not in looked.stderr
    assert ", ".join(crippled) in looked.stdout
    assert "pip install autotrascale" in looked.stdout
    decided = run(command, folder, "decide", "snapshot.json")
    assert decided.returncode == 1
    (line,) = decided.stderr.splitlines()
    assert "pip install autotrascale" in line


def test_a_decision_needs_nothing_else(command: Path, folder: Path) -> None:
    shutil.copy(ROOT / "examples" / "snapshot.json", folder)
    done = run(command, folder, "decide", "--policy", "ds2", "snapshot.json")
    assert done.returncode == 0, done.stderr


def test_the_environment_is_as_clean_as_it_says(command: Path, folder: Path) -> None:
    code = "import importlib.util as u; print([m for m in ('pyspark', 'mlflow', 'pytest', 'psutil') if u.find_spec(m)])"
    python = command.with_name("python")
    done = subprocess.run([str(python), "-c", code], cwd=folder, capture_output=True, text=True, env=dict(os.environ))
    assert done.stdout.strip() == "[]"
