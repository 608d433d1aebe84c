"""Which extra of this package brings which module: what is missing is said with the way to get it."""

from __future__ import annotations

from importlib.util import find_spec

from autotrascale.domain.errors import InputError

# What comes with the package itself, and is missing only where it was installed without its dependencies.
_CORE = (
    "numpy",
    "scipy",
    "sklearn",
    "skopt",
    "joblib",
    "threadpoolctl",
    "pydantic",
    "pydantic_core",
    "yaml",
    "typer",
    "rich",
    "packaging",
)
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


def explain_missing_package(error: ModuleNotFoundError) -> InputError | None:
    """None where neither this package nor an extra brings it: that is a mistake of ours, or of the user's own code."""
    module = (error.name or "").partition(".")[0]
    if module in _CORE:
        return InputError("this program", f"lacks a package of its own: {module}", remedy="pip install autotrascale")
    if module not in _EXTRA_OF:
        return None
    return InputError(
        "this verb",
        f"needs a package that is not installed: {module}",
        remedy=f"pip install 'autotrascale[{_EXTRA_OF[module]}]'",
    )


def list_missing_core_packages() -> list[str]:
    """By the names under which they are imported."""
    return [module for module in _CORE if find_spec(module) is None]
