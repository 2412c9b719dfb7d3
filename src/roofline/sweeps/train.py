"""Training of the same stand-in: forward and backward over T tokens per step.

    FLOP ≈ 6·P·T, traffic ≈ three passes over the weights, I ≈ 2·T / (bytes per parameter)

The passes: forward reads them, backward reads them again, and writes as many gradients.
6·P·T over-counts by one product: the first layer's input needs no gradient. Both are shown.
"""

from collections.abc import Sequence
from typing import Any

from roofline.core.machine import Machine
from roofline.core.run import BytesOrigin, Run
from roofline.formulas import TensorSpec
from roofline.sweeps import mlp
from roofline.sweeps.case import Case
from roofline.sweeps.decode import critical
from roofline.sweeps.planned import planned_run
from roofline.sweeps.settings import Settings
from roofline.targets.made import Made, Target
from roofline.targets.options import Options

ITEM = "token"
ARTICLE_TOKENS = (1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096)
SMALL_TOKENS = (1, 4, 16, 64, 128, 256, 512)


def cases(settings: Settings) -> list[Case]:
    """One case per number of tokens."""
    sizes = settings.sizes or (SMALL_TOKENS if settings.small else ARTICLE_TOKENS)
    what = mlp.sized(settings.params, settings.hidden, settings.blocks).settings()
    return [
        Case(
            sweep="train",
            series="train",
            size=size,
            precision=settings.precision,
            settings=what,
            device=settings.device,
        )
        for size in sorted(sizes)
    ]


def program(case: Case) -> tuple[Target, Options]:
    """The case as a target to count or time."""
    options = Options(batch=case.size, train=True, device=case.device or "cpu")
    return Target(f"mlp train, {case.size} tokens", lambda chosen: _make(case, chosen)), options


def _make(case: Case, options: Options) -> Made:
    import torch

    sizes = mlp.of(case.settings)
    kind = getattr(torch, mlp.dtype(case.precision))
    x = torch.randn(case.size, sizes.hidden, dtype=kind, device=options.device)
    return Made(module=mlp.build(sizes, case.precision, options.device), inputs=(x,), items=case.size, item=ITEM)


def predict(case: Case, machine: Machine, origin: BytesOrigin | None) -> Run | None:
    """Judge the case by any machine, without torch. Not in it: the loss, a few passes over the last activations."""
    sizes = mlp.of(case.settings)
    name = mlp.dtype(case.precision)
    one = TensorSpec((sizes.hidden, sizes.inner), name).nbytes
    ops = mlp.forward_ops(sizes, case.size, case.precision) + mlp.backward_ops(sizes, case.size, case.precision)
    rows = TensorSpec((case.size, sizes.hidden), name).nbytes
    workload = {
        "target": f"mlp train, {case.size} tokens",
        "batch": case.size,
        "train": True,
        "items": case.size,
        "item": ITEM,
    }
    # Any execution reads every weight and writes every gradient once.
    least = 2 * (2 * sizes.blocks * one) + rows
    return planned_run(mlp.with_cache(ops, one, machine), machine, workload, compulsory=least, origin=origin)


def memory_bytes(case: Case) -> float:
    """About what the case needs: weights, gradients, and the activations kept for the backward pass."""
    sizes = mlp.of(case.settings)
    item = TensorSpec((1,), mlp.dtype(case.precision)).nbytes
    return item * (2 * sizes.params + case.size * sizes.blocks * (sizes.hidden + 2 * sizes.inner))


def facts(cases: Sequence[Case], machine: Machine | None) -> dict[str, Any]:
    """What the theory says before anything runs."""
    if not cases:
        return {}
    first = cases[0]
    params = mlp.of(first.settings).params
    item = TensorSpec((1,), mlp.dtype(first.precision)).nbytes
    found: dict[str, Any] = {"params": params, "traffic_bytes": 3 * params * item}
    if machine is not None:
        ridge = machine.ridge_point(first.precision)
        found |= {
            "ridge_point_flops_per_byte": ridge,
            "ceiling_tokens_per_s": machine.dram.value / (3 * params * item),
            "critical_tokens": critical(ridge, item),
            "plateau_tokens_per_s": machine.matrix_peak(first.precision).value / (6 * params),
        }
    return found
