"""The article's byte estimate: what crosses the boundary of leaf modules (origin `module`)."""

from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves


class LeafIO:
    """Adds up, per call of a leaf module: its parameters read, its input and output sizes.

    With a backward pass each call also reads its weights again and writes their gradients, so parameters count
    three times. It over-counts what stays in cache or is fused, and misses functional ops, workspace, and
    containers that use their children's weights without calling them (nn.MultiheadAttention's out_proj).

    Attributes:
        forward_bytes: Parameters, inputs and outputs once.
        weight_bytes: Trainable parameters once.
    """

    def __init__(self) -> None:
        self.forward_bytes = 0
        self.weight_bytes = 0

    def add(self, module: nn.Module, args: Any, output: Any) -> None:
        """Count one call; modules with children, and calls that recompute, add nothing."""
        if next(module.children(), None) is not None or torch._C._current_graph_task_id() != -1:
            return
        weights = sum(p.nbytes for p in module.parameters(recurse=False))
        self.forward_bytes += weights + _nbytes(args) + _nbytes(output)
        self.weight_bytes += sum(p.nbytes for p in module.parameters(recurse=False) if p.requires_grad)

    def total(self, *, backward: bool) -> int:
        """Bytes of a step, with or without a backward pass."""
        return self.forward_bytes + (2 * self.weight_bytes if backward else 0)


def _nbytes(tree: Any) -> int:
    return sum(t.nbytes for t in tree_leaves(tree) if isinstance(t, torch.Tensor))
