"""A program, run as its author would run it, with our hooks in place:

    python -m autotrascale.execute.spark.driver_agent.driver my_app.py arguments…
    python this/file.py -m my_package.my_app arguments…
    spark-submit … this/file.py my_app.py arguments…

Its arguments, folder of modules, exit code and tracebacks are those that it has without us.
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
        sys.exit("autotrascale: which program? name a Python file, or -m and a module")
    script = arguments[0]
    if script == "-m":
        _run_module(arguments[1:])
        return
    sys.argv = arguments
    sys.path[0] = str(Path(script).resolve().parent)  # ours would hide modules of the same name
    _adopt()
    _run(script)


def _run_module(words: list[str]) -> None:
    """As `python -m` does, by what it does it with, in a `__main__` of the program's own."""
    sys.argv = ["-m", *words[1:]]
    sys.path[0] = os.getcwd()
    _adopt()
    _hide_frames_of_ours()
    sys.modules["__main__"] = ModuleType("__main__")
    as_main: Any = vars(runpy)["_run_module_as_main"]
    as_main(words[0])


def _adopt() -> None:
    """Loaded here, so that a program which cannot be adopted for some lack says so in one line."""
    try:
        from autotrascale.execute.spark.driver_agent.attach import adopt
    except ImportError as error:
        sys.exit(f"autotrascale: the Python of this driver ({sys.executable}) lacks {error.name}: install it there")
    adopt()


def _run(script: str) -> None:
    """As `python script` does: a fresh `__main__` that is the program's own."""
    module = ModuleType("__main__")
    loader = SourceFileLoader("__main__", script)
    vars(module).update({"__file__": script, "__builtins__": builtins, "__loader__": loader, "__spec__": None})
    sys.modules["__main__"] = module
    try:
        source = Path(script).read_bytes()
    except OSError as error:
        print(f"autotrascale: can't open file {script!r}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    _hide_frames_of_ours()
    code = compile(source, script, "exec", dont_inherit=True)
    exec(code, vars(module))


def _hide_frames_of_ours() -> None:
    """From the traceback of an error that nobody catches. Ctrl-C is no error."""
    inner = sys.excepthook

    def shown(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        while at is not None and _is_ours(at):
            at = at.tb_next
        inner(kind, error.with_traceback(at), at)

    sys.excepthook = shown


def _is_ours(at: TracebackType) -> bool:
    name = at.tb_frame.f_code.co_filename
    return name == "<frozen runpy>" or os.path.realpath(name) == os.path.realpath(__file__)


if __name__ == "__main__":
    main()
