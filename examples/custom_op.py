"""Give a custom op its formula, so that it counts."""

import torch

import roofline


@torch.library.custom_op("example::fused_mlp", mutates_args=())
def fused_mlp(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ up) @ down


@fused_mlp.register_fake
def _(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[0], down.shape[1])


def mlp_cost(x, up, down, *, out):
    return roofline.Cost(matrix=2 * x.numel * up.shape[1] + 2 * out.numel * down.shape[0])


x, up, down = torch.randn(32, 64), torch.randn(64, 256), torch.randn(256, 64)

run = roofline.count(lambda: fused_mlp(x, up, down))
print("without a formula:", [op.name for op in run.coverage.unknown_ops])

roofline.register_formula(fused_mlp, mlp_cost)
run = roofline.count(lambda: fused_mlp(x, up, down))
print("with one:", run.flops.executed, "FLOP")
assert run.flops.executed == 2 * 32 * 64 * 256 + 2 * 32 * 256 * 64
