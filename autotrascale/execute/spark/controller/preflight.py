"""What Spark needs of this machine, asked before anything is started: each lack is one clear sentence."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.clusters.session_configuration import NO_CONNECTOR, lacks_connector
from autotrascale.execute.spark.common.spark_settings import SparkSettings

LEAST_JAVA = 17
_JVM_EXTRA_MB = 400  # what a JVM takes beside its heap, with Python's driver process


def check_machine(settings: SparkSettings) -> None:
    """Raises `EngineError` when the job cannot possibly start here."""
    check_packages()
    check_java()
    check_memory(settings.driver_megabytes)
    if lacks_connector(settings):
        raise EngineError(NO_CONNECTOR)


def check_packages() -> None:
    missing = [
        name for name in ("pyspark", "pyarrow", "pandas", "msgspec", "psutil") if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise EngineError(f"Python lacks {', '.join(missing)}: install autotrascale with its extra [spark]")


def check_java() -> tuple[str, int]:
    """Java 17 or newer, from JAVA_HOME when set, else from PATH: the order in which Spark looks. Where, and which."""
    java = find_java()
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{java} does not run ({error}): install a Java {LEAST_JAVA} or newer") from None
    version = parse_java_version(said.stderr + said.stdout)
    if version is None:
        raise EngineError(f"{java} does not tell its version: install a Java {LEAST_JAVA} or newer")
    if version < LEAST_JAVA:
        raise EngineError(
            f"Spark needs Java {LEAST_JAVA} or newer, and {java} is Java {version}: set JAVA_HOME to another"
        )
    return java, version


def find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise EngineError(f"JAVA_HOME is {home}, which has no bin/java: correct it or unset it")
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise EngineError(f"there is no Java: install Java {LEAST_JAVA} or newer, or set JAVA_HOME")
    return found


def parse_java_version(text: str) -> int | None:
    """The major version in what `java -version` prints: 17 of "17.0.15", 8 of "1.8.0_392"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def check_memory(driver_mb: int) -> int:
    """How many megabytes are free."""
    import psutil  # of the extra [spark]: without it, what is missing can still be told

    free = int(psutil.virtual_memory().available) // 2**20
    if driver_mb + _JVM_EXTRA_MB > free:
        raise EngineError(
            f"Spark's driver wants {driver_mb} MB and about {_JVM_EXTRA_MB} MB beside its heap, and "
            f"{free} MB are free: lower spark.driver_memory or free some memory"
        )
    return free
