"""Launches of Triton kernels, which no dispatch mode sees.

A launch `kernel[grid](…)` becomes an op "triton.NAME": by its registered formula, else a named unknown op that
touches each of its tensors once. On fake tensors nothing is launched, as a kernel writes only where it is told to.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

Launch = Callable[..., Any]


@contextmanager
def watched_launches(launched: Callable[[str, Launch, Any, Any], Any]) -> Iterator[None]:
    """Hand every launch in the block to `launched`, with the kernel's name, what launches it, and its arguments."""
    jit = sys.modules.get("triton.runtime.jit")
    if jit is None:
        yield
        return
    plain = jit.KernelInterface.__getitem__

    def chosen(kernel: Any, grid: Any) -> Launch:
        launch = plain(kernel, grid)
        return lambda *args, **kwargs: launched(kernel_name(kernel), launch, args, kwargs)

    with patch.object(jit.KernelInterface, "__getitem__", chosen):
        yield


def kernel_name(kernel: Any) -> str:
    """Name of the function under a Triton kernel and its tuners."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return str(kernel.__name__)
