"""A program to count or time: a step to call, and the module it calls, if there is one."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from roofline.core.precision import Precision
from roofline.errors import UsageError

_AUTOCAST = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


class Program(NamedTuple):
    """One step of a program.

    Attributes:
        step: Runs one step; takes nothing, returns whatever outlives it.
        root: The module whose names the ops get; None for a free step.
    """

    step: Callable[[], Any]
    root: nn.Module | None = None


def inference(module: nn.Module, inputs: Sequence[Any], keywords: dict[str, Any], *, cast: Any) -> Program:
    """Forward only, in inference mode; the module's own training flag stays as it is."""

    def step() -> Any:
        with torch.inference_mode(), cast():
            return module(*inputs, **keywords)

    return Program(step, module)


def training(
    module: nn.Module, inputs: Sequence[Any], keywords: dict[str, Any], *, cast: Any, optimizer: str | None
) -> Program:
    """Forward, loss and backward, and the optimizer's step if one is named.

    The loss is the output's own `.loss` where it has one, else the sum of its floating-point tensors' means, in
    FP32. Gradients are freed before each step, as `zero_grad(set_to_none=True)` does.
    """
    stepper = make_optimizer(optimizer, module) if optimizer else None

    def step() -> Any:
        module.zero_grad(set_to_none=True)
        with cast():
            output = module(*inputs, **keywords)
        loss = loss_of(output)
        loss.backward()
        if stepper is not None:
            stepper.step()
        return loss.detach()

    return Program(step, module)


def loss_of(output: Any) -> torch.Tensor:
    """Reduce a module's output to one number to differentiate.

    Raises:
        UsageError: Nothing in the output can be differentiated.
    """
    own = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if isinstance(own, torch.Tensor):
        return own
    values = list(output.values()) if isinstance(output, dict) else output
    parts = [t for t in tree_leaves(values) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not parts:
        raise UsageError(
            "the program's output has nothing to differentiate", "leave --train out, or return a step that trains"
        )
    return torch.stack([t.float().mean() for t in parts]).sum()


def make_optimizer(name: str, module: nn.Module) -> torch.optim.Optimizer:
    """Make an optimizer over the module's trainable parameters, in its fused form, which runs without host syncs.

    Raises:
        UsageError: The name is unknown.
    """
    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    if name not in kinds:
        raise UsageError(f'unknown optimizer "{name}"', f"choose one of: {', '.join(kinds)}")
    return kinds[name]([p for p in module.parameters() if p.requires_grad], lr=1e-4, fused=True)


def caster(device: str, precision: Precision | None) -> Callable[[], Any]:
    """Autocast to `precision` on `device`; FP32 or None leave the program's own precision.

    Raises:
        UsageError: Autocast knows no such precision.
    """
    if precision in (None, Precision.FP32):
        return nullcontext
    if precision not in _AUTOCAST:
        raise UsageError(f"a program can't be cast to {precision}", "choose --precision bf16, fp16 or fp32")
    kind = torch.device(device).type
    return lambda: torch.autocast(kind, dtype=_AUTOCAST[precision])
