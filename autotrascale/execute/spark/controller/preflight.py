"""Check what Spark needs of this machine before anything is started."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.clusters.session_configuration import lacks_connector
from autotrascale.execute.spark.common.source_settings import NO_CONNECTOR
from autotrascale.execute.spark.common.spark_settings import SparkSettings

MIN_JAVA = 17
_JVM_EXTRA_MB = 400  # memory of a JVM outside its heap, and of the Python driver


def check_machine(settings: SparkSettings) -> None:
    """Raise `EngineError` if the job cannot start on this machine."""
    check_packages()
    check_java()
    check_memory(settings.driver_megabytes)
    if lacks_connector(settings):
        raise EngineError(NO_CONNECTOR)


def check_packages() -> None:
    """Raise `EngineError` if a Python package is missing."""
    missing = [
        name for name in ("pyspark", "pyarrow", "pandas", "msgspec", "psutil") if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise EngineError(f"Python packages are missing [{', '.join(missing)}]: install autotrascale[spark]")


def check_java() -> tuple[str, int]:
    """Return path and major version of the Java that Spark uses. Raises `EngineError` if it is missing or too old."""
    java = find_java()
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{java} does not run ({error}): install a Java {MIN_JAVA} or newer") from None
    version = parse_java_version(process.stderr + process.stdout)
    if version is None:
        raise EngineError(f"{java} prints no version: install a Java {MIN_JAVA} or newer")
    if version < MIN_JAVA:
        raise EngineError(
            f"Spark needs Java {MIN_JAVA} or newer, and {java} is Java {version}: set JAVA_HOME to another"
        )
    return java, version


def find_java() -> str:
    """Return the path of java: of JAVA_HOME if set, else of PATH. Spark looks in the same order."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise EngineError(f"JAVA_HOME is {home}, which has no bin/java: correct it, or unset it")
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise EngineError(f"there is no Java: install Java {MIN_JAVA} or newer, or set JAVA_HOME")
    return found


def parse_java_version(text: str) -> int | None:
    """Return the major version in the output of `java -version`: 17 of "17.0.15", 8 of "1.8.0_392"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def check_memory(driver_mb: int) -> int:
    """Return the free megabytes. Raises `EngineError` if a driver with `driver_mb` of heap does not fit."""
    import psutil  # in the extra [spark]; `check_packages` must work without it

    free = int(psutil.virtual_memory().available) // 2**20
    if driver_mb + _JVM_EXTRA_MB > free:
        raise EngineError(
            f"the driver needs {driver_mb} MB of heap and about {_JVM_EXTRA_MB} MB more, and {free} MB are free:"
            " lower spark.driver_memory, or free some memory"
        )
    return free
