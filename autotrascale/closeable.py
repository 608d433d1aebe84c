"""A base class for objects that hold files, connections or processes until they are closed."""

from __future__ import annotations

from typing import Self


class Closeable:
    """A context manager that calls `close` at the end of a `with` block."""

    def close(self) -> None:
        """Release everything that the object holds. The default holds nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
