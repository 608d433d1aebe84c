"""Missing Python packages: name the extra of `pip install autotrascale[…]` that brings each."""

from __future__ import annotations

from importlib.util import find_spec

from autotrascale.domain.errors import InputError

# Import names of the required dependencies. One is missing only after `pip install --no-deps`.
CORE_MODULES = (
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
EXTRA_MODULES = {
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
EXTRA_BY_MODULE = {module: extra for extra, modules in EXTRA_MODULES.items() for module in modules}


def explain_missing_package(error: ModuleNotFoundError) -> InputError | None:
    """Return the error with a `pip install` remedy, or None if the module belongs to no dependency of AuTraScale."""
    module = (error.name or "").partition(".")[0]
    if module in CORE_MODULES:
        return InputError("installation", f"lacks the package {module}", remedy="pip install autotrascale")
    if module not in EXTRA_BY_MODULE:
        return None
    return InputError(
        "installation",
        f"lacks the package {module}, which this verb needs",
        remedy=f"pip install 'autotrascale[{EXTRA_BY_MODULE[module]}]'",
    )


def list_missing_core_packages() -> list[str]:
    """Return the import names of required packages that are not installed."""
    return [module for module in CORE_MODULES if find_spec(module) is None]
