"""While the user's program runs: what it raises becomes one line, what it sets in torch is put back."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from roofline.errors import RooflineError

_OUT_OF_MEMORY = re.compile(
    r"out of memory|not enough memory|can't allocate memory|failed to allocate", re.IGNORECASE
)


@contextmanager
def _defaults_kept() -> Iterator[None]:
    """Put back torch's default precision and device, which a factory may set and leave so."""
    import torch

    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    dtype, device = torch.get_default_dtype(), None if context is None else context.device
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        if getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None) is not context:
            torch.set_default_device(device)


@contextmanager
def running(label: str) -> Iterator[None]:
    """Turn what the user's program raises into one line; torch's defaults are as before, whatever it set."""
    try:
        with _defaults_kept():
            yield
    except RooflineError:
        raise
    except (Exception, SystemExit) as error:
        text = (str(error).strip().splitlines() or [""])[0][:300]
        if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)):
            raise RooflineError(
                f"{label} ran out of memory: {text}",
                "try a smaller --batch, or roofline count, which allocates nothing",
            ) from error
        raise RooflineError(
            f"{label} failed: {type(error).__name__}: {text}", "run it by itself to see why, or add --debug"
        ) from error
