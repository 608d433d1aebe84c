"""Which extra of this package brings which module: what is missing is said with the way to get it."""

from __future__ import annotations

from autotrascale.domain.errors import InputError

_EXTRAS = {
    "spark": ("pyspark", "py4j", "pyarrow", "pandas", "msgspec", "psutil"),
    "mlflow": ("mlflow",),
    "influxdb": ("influxdb_client", "urllib3"),
    "redis": ("redis",),
    "service": (
        "fastapi",
        "starlette",
        "uvicorn",
        "anyio",
        "h11",
        "prometheus_client",
        "jinja2",
        "plotly",
        "fastapi_offline",
    ),
}
_EXTRA_OF = {module: extra for extra, modules in _EXTRAS.items() for module in modules}


def of_missing(error: ModuleNotFoundError) -> InputError | None:
    """None where a module is missing that no extra brings: that is a mistake of ours, or of the user's own code."""
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRA_OF:
        return None
    return InputError("this verb", f"needs a package that is not installed: {module}",
                      remedy=f"pip install 'autotrascale[{_EXTRA_OF[module]}]'")  # fmt: skip
