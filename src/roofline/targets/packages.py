"""Optional packages: imported when a target needs them, missed with a hint on how to get them."""

from importlib import import_module
from typing import Any

from roofline.errors import UsageError


def need(package: str, extra: str) -> Any:
    """Import an optional package.

    Raises:
        UsageError: It is not installed, or breaks on import.
    """
    try:
        return import_module(package)
    except ImportError as error:
        how = f"pip install 'roofline[{extra}]'" if extra != package else f"pip install {package}"
        raise UsageError(f"{package} is not installed ({error})", how) from None
    except RuntimeError as error:
        # torchvision beside a torch that it was not built for fails while it registers its ops.
        raise UsageError(
            f"{package} breaks on import: {error}", f"install a {package} that matches your torch"
        ) from None
