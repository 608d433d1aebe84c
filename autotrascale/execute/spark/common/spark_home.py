"""A home for Spark from which Python workers start quickly.

Spark puts `python/lib/pyspark.zip` of its home first on the path of every Python process that it starts. A zip holds no
compiled modules, so each of them compiles PySpark anew: a second, where importing the installed package, which is the
same, takes a third of one. A streaming source in Python has a process of its own, so every start of a query waits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

_HOME = "SPARK_HOME"


@contextmanager
def installed_pyspark(folder: Path) -> Iterator[None]:
    """A JVM that is started within has `folder` as its home: the installed one without the zip. Only for a master on
    this machine, since others are sent the zip. A home of the user's own choice stays."""
    installed = Path(pyspark.__file__).parent
    if _HOME in os.environ or not (installed / "jars").is_dir():
        yield
        return
    folder.mkdir(exist_ok=True)  # the host before this one may have died, at any moment
    for part in installed.iterdir():
        if part.name != "python":
            with suppress(FileExistsError):
                (folder / part.name).symlink_to(part)
    os.environ[_HOME] = str(folder)
    try:
        yield
    finally:
        del os.environ[_HOME]
