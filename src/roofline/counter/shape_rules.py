"""Ops whose shape rule in torch refuses what their kernel takes: a fake tensor fails where a real one runs."""

from collections.abc import Callable
from typing import Any

import torch

_HALF = (torch.bfloat16, torch.float16)


def fake_kernel(func: Any) -> Callable[..., Any]:
    """What to call instead of `func` on fake tensors; mostly `func` itself."""
    return _grouped_mm if func is getattr(torch.ops.aten._grouped_mm, "default", None) else func


def _grouped_mm(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    """Shape of a grouped matmul in any precision: the CPU kernel takes FP32, the shape rule only BF16 and FP16."""
    grouped_mm = torch.ops.aten._grouped_mm.default
    if a.dtype in _HALF:
        return grouped_mm(a, b, *args, **kwargs)
    return grouped_mm(a.bfloat16(), b.bfloat16(), *args, **kwargs).to(a.dtype)
