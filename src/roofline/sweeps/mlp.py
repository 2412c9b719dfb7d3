"""The article's stand-in for a dense Transformer: blocks of two linear layers with GELU between, no attention.

Its sizes and its ops are known without torch; `build` makes the module that has them.
"""

from math import log2, sqrt
from typing import Any

import msgspec

from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.run import OpBytes, OpRecord
from roofline.errors import UsageError
from roofline.formulas import TensorSpec
from roofline.sweeps.planned import op_record

# Inner widths are a multiple of this, so that tiles of any matrix engine come out even.
_MULTIPLE = 64
_DTYPES = {
    Precision.BF16: "bfloat16",
    Precision.FP16: "float16",
    Precision.FP32: "float32",
    Precision.FP64: "float64",
}


class Mlp(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the stand-in.

    Attributes:
        hidden: Width between blocks.
        inner: Width inside a block.
        blocks: Blocks, each hidden → inner → hidden, without bias.
    """

    hidden: int
    inner: int
    blocks: int

    @property
    def params(self) -> int:
        """P = blocks · 2 · hidden · inner."""
        return self.blocks * 2 * self.hidden * self.inner

    def settings(self) -> dict[str, str | int | bool]:
        """The sizes as settings of a case."""
        return {"hidden": self.hidden, "inner": self.inner, "blocks": self.blocks}


def sized(params: float, hidden: int | None = None, blocks: int | None = None) -> Mlp:
    """Choose sizes for about `params` parameters: an inner width near 4 · hidden, in multiples of 64.

    Args:
        params: How many, within a few parts in a thousand where neither `hidden` nor `blocks` forbids it.
        hidden: Width between blocks; None: a power of two near √(P / 48), which leaves about six blocks or more.
        blocks: Blocks; None: P / (8 · hidden²), rounded.

    Raises:
        UsageError: The sizes don't fit together.
    """
    if params < 1024:
        raise UsageError(f"--params {params:g} is no model", "give at least 1024, such as --params 1.4e9")
    width = hidden or 2 ** max(3, round(log2(sqrt(params / 48))))
    depth = blocks or max(1, round(params / (8 * width**2)))
    inner = params / (2 * width * depth)
    rounded = max(1, round(inner / _MULTIPLE)) * _MULTIPLE if inner >= _MULTIPLE / 2 else max(1, round(inner))
    return Mlp(hidden=width, inner=rounded, blocks=depth)


def of(settings: dict[str, Any]) -> Mlp:
    """The sizes in the settings of a case."""
    return Mlp(hidden=settings["hidden"], inner=settings["inner"], blocks=settings["blocks"])


def dtype(precision: Precision) -> str:
    """Torch's name of the weights' format.

    Raises:
        UsageError: torch has no arithmetic on tensors of it.
    """
    if precision not in _DTYPES:
        raise UsageError(f"no module can be built in {precision}", f"choose one of: {', '.join(_DTYPES)}")
    return _DTYPES[precision]


def forward_ops(mlp: Mlp, rows: int, precision: Precision) -> list[OpRecord]:
    """Ops of a forward pass over `rows` vectors of width `hidden`."""
    name = dtype(precision)
    x, h = TensorSpec((rows, mlp.hidden), name), TensorSpec((rows, mlp.inner), name)
    up, down = TensorSpec((mlp.hidden, mlp.inner), name), TensorSpec((mlp.inner, mlp.hidden), name)
    n = mlp.blocks
    return [
        op_record("aten.mm", x, up, out=h, module="up", calls=n),
        op_record("aten.gelu", h, out=h, module="act", calls=n),
        op_record("aten.mm", h, down, out=x, module="down", calls=n),
    ]


def backward_ops(mlp: Mlp, rows: int, precision: Precision) -> list[OpRecord]:
    """Ops of the backward pass: a gradient per weight, and per layer's input but the first, which needs none."""
    name = dtype(precision)
    x, h = TensorSpec((rows, mlp.hidden), name), TensorSpec((rows, mlp.inner), name)
    xt, ht = TensorSpec((mlp.hidden, rows), name), TensorSpec((mlp.inner, rows), name)
    up, down = TensorSpec((mlp.inner, mlp.hidden), name), TensorSpec((mlp.hidden, mlp.inner), name)
    n = mlp.blocks
    ops = [
        op_record("aten.mm", xt, h, out=down, module="down", phase="backward", calls=n),
        op_record("aten.mm", x, down, out=h, module="down", phase="backward", calls=n),
        op_record("aten.gelu_backward", h, h, out=h, module="act", phase="backward", calls=n),
        op_record("aten.mm", ht, x, out=up, module="up", phase="backward", calls=n),
    ]
    if n > 1:
        ops.append(op_record("aten.mm", h, up, out=x, module="up", phase="backward", calls=n - 1))
    return ops


def with_cache(ops: list[OpRecord], weight_bytes: float, machine: Machine) -> list[OpRecord]:
    """Add `cached` bytes: activations that fit into the last-level cache never reach memory, weights always do.

    Args:
        ops: Of one step.
        weight_bytes: Bytes of one weight matrix: of weights, of their gradients, what a product moves of them.
        machine: Whose cache.
    """
    capacity = machine.last_level_cache_bytes

    def cached(op: OpRecord) -> OpRecord:
        total = op.bytes.operator or 0.0
        held = weight_bytes * op.calls if op.name == "aten.mm" else 0.0
        passed = (total - held) / op.calls
        return msgspec.structs.replace(
            op, bytes=OpBytes(operator=total, cached=held if passed <= capacity else total)
        )

    return [cached(op) for op in ops]


def build(mlp: Mlp, precision: Precision, device: str) -> Any:
    """Make the module, with random weights. Filling a billion of them one by one takes longer than timing it."""
    import torch
    from torch import nn

    kind = getattr(torch, dtype(precision))
    layers: list[nn.Module] = []
    for _ in range(mlp.blocks):
        for inputs, outputs in ((mlp.hidden, mlp.inner), (mlp.inner, mlp.hidden)):
            # On meta first: the layer's own initialisation would be thrown away.
            layer = nn.Linear(inputs, outputs, bias=False, device="meta", dtype=kind)
            weight = torch.empty(outputs, inputs, device=device, dtype=kind)
            _fill(weight, inputs**-0.5)
            layer.weight = nn.Parameter(weight)
            layers.append(layer)
            if outputs == mlp.inner:
                layers.append(nn.GELU())
    return nn.Sequential(*layers)


def _fill(weight: Any, scale: float) -> None:
    """Random rows, repeated: as random to a matrix engine as any, and filled at the speed of memory."""
    import torch

    rows = min(64, weight.shape[0])
    some = torch.randn(rows, weight.shape[1], dtype=weight.dtype, device=weight.device) * scale
    for start in range(0, weight.shape[0], rows):
        stop = min(start + rows, weight.shape[0])
        weight[start:stop] = some[: stop - start]
