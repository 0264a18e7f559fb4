"""The check that every entry point makes before anything else."""

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Final

from tenxgraph.core.exceptions import TenxGraphError

RIVAL: Final = "10xgraph"


def refuse_beside_10xgraph() -> None:
    """Refuse to start where the distribution ``10xgraph`` is installed: its package has the same import name.

    Raises:
        TenxGraphError: ``ENVIRONMENT``; the message says what to uninstall.
    """
    rival = _installed(RIVAL)
    if rival is None:
        return
    raise TenxGraphError(
        f"'{RIVAL}' {rival.version} is installed in this environment and brings a package of the same import name, "
        f"so that one overwrites the other. Run 'pip uninstall {RIVAL}', "
        "then 'pip install --force-reinstall tenxgraph'.",
        error_code="ENVIRONMENT",
        context={"distribution": RIVAL, "version": rival.version},
    )


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None
