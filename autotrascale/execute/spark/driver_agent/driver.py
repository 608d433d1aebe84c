"""Script that runs a user's program with AuTraScale attached. Started by path:

    python -m autotrascale.execute.spark.driver_agent.driver my_app.py arguments…
    python this/file.py -m my_package.my_app arguments…
    spark-submit … this/file.py my_app.py arguments…

The program has the same arguments, module folder, exit code and tracebacks as without AuTraScale.
"""

from __future__ import annotations

import builtins
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments == ["-m"]:
        sys.exit("autotrascale: no program is named: name a Python file, or -m and a module")
    script = arguments[0]
    if script == "-m":
        _run_module(arguments[1:])
        return
    sys.argv = arguments
    sys.path[0] = str(Path(script).resolve().parent)  # the folder of this script would hide modules of the same name
    _adopt()
    _run(script)


def _run_module(words: list[str]) -> None:
    """Run a module as `python -m` does, with the same function and a fresh `__main__`."""
    sys.argv = ["-m", *words[1:]]
    sys.path[0] = os.getcwd()
    _adopt()
    _hide_own_frames()
    sys.modules["__main__"] = ModuleType("__main__")
    as_main: Any = vars(runpy)["_run_module_as_main"]
    as_main(words[0])


def _adopt() -> None:
    # Imported here, so that a missing package is reported in one line.
    try:
        from autotrascale.execute.spark.driver_agent.attach import adopt
    except ImportError as error:
        sys.exit(
            f"autotrascale: the Python of this driver ({sys.executable}) lacks {error.name}: install it for that Python"
        )
    adopt()


def _run(script: str) -> None:
    """Run a script as `python script` does, in a fresh `__main__`."""
    module = ModuleType("__main__")
    loader = SourceFileLoader("__main__", script)
    vars(module).update({"__file__": script, "__builtins__": builtins, "__loader__": loader, "__spec__": None})
    sys.modules["__main__"] = module
    try:
        source = Path(script).read_bytes()
    except OSError as error:
        print(f"autotrascale: can't open file {script!r}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    _hide_own_frames()
    code = compile(source, script, "exec", dont_inherit=True)
    exec(code, vars(module))


def _hide_own_frames() -> None:
    """Remove this script from the traceback of an uncaught error, and print none for Ctrl-C."""
    inner = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        while at is not None and _is_own_frame(at):
            at = at.tb_next
        inner(kind, error.with_traceback(at), at)

    sys.excepthook = show


def _is_own_frame(at: TracebackType) -> bool:
    name = at.tb_frame.f_code.co_filename
    return name == "<frozen runpy>" or os.path.realpath(name) == os.path.realpath(__file__)


if __name__ == "__main__":
    main()
