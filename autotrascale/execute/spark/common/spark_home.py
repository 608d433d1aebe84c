"""A Spark home from which Python workers start quickly.

Spark puts `python/lib/pyspark.zip` of its home first on the path of each Python process. A zip holds no compiled
modules, so each process compiles PySpark for a second. Importing the same package as installed takes a third of that.
A streaming source in Python runs in a process of its own, so each start of a query would wait.
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
    """Give a JVM that is started in the block `folder` as its home: the installed Spark without the zip.

    Use it only for a local master, since other masters send the zip to workers. A SPARK_HOME of the user's is kept.
    """
    installed = Path(pyspark.__file__).parent
    if _HOME in os.environ or not (installed / "jars").is_dir():
        yield
        return
    folder.mkdir(exist_ok=True)  # an earlier driver may have died while it made the folder
    for part in installed.iterdir():
        if part.name != "python":
            with suppress(FileExistsError):
                (folder / part.name).symlink_to(part)
    os.environ[_HOME] = str(folder)
    try:
        yield
    finally:
        del os.environ[_HOME]
