"""What notebooks and MLflow show of a value: `_repr_html_`, as every notebook asks for it.

How things look is the affair of `views`, which no inner room may import. So the room is reached by its name, and only
when somebody looks.
"""

from __future__ import annotations

from importlib import import_module


class Displayed:
    """Mixed into what has a look of its own; it adds nothing but that."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        html: str = import_module("autotrascale.views.notebook").as_html(self)
        return html
