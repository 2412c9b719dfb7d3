"""Decode: one new token for every sequence of the batch. Weights are read once per step, so batch is intensity.

    FLOP = 2·P·B, bytes ≈ weight bytes, I ≈ 2·B / (bytes per parameter)

so the batch at which compute takes over, the critical batch, is the ridge point times half the bytes of a parameter.
"""

from collections.abc import Sequence
from typing import Any

from roofline.core.machine import Machine
from roofline.core.run import BytesOrigin, Run
from roofline.formulas import TensorSpec
from roofline.sweeps import mlp
from roofline.sweeps.case import Case
from roofline.sweeps.planned import planned_run
from roofline.sweeps.settings import Settings
from roofline.targets.made import Made, Target
from roofline.targets.options import Options

ITEM = "token"
ARTICLE_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SMALL_BATCHES = (1, 4, 16, 64, 128, 256, 512)


def cases(settings: Settings) -> list[Case]:
    """One case per batch."""
    sizes = settings.sizes or (SMALL_BATCHES if settings.small else ARTICLE_BATCHES)
    if settings.model == "mlp":
        what: dict[str, str | int | bool] = mlp.sized(settings.params, settings.hidden, settings.blocks).settings()
        series = "decode"
    else:
        what = {"model": settings.model, "context": settings.context}
        series = f"decode {settings.model.rpartition('/')[2]}"
    return [
        Case(
            sweep="decode",
            series=series,
            size=size,
            precision=settings.precision,
            settings=what,
            device=settings.device,
        )
        for size in sorted(sizes)
    ]


def program(case: Case) -> tuple[Target, Options]:
    """The case as a target to count or time."""
    options = Options(batch=case.size, device=case.device or "cpu")
    if "model" in case.settings:
        from roofline.sweeps.kv import target

        return target(str(case.settings["model"]), int(case.settings["context"]), case.precision), options
    return Target(f"mlp decode, batch {case.size}", lambda chosen: _make(case, chosen)), options


def _make(case: Case, options: Options) -> Made:
    import torch

    sizes = mlp.of(case.settings)
    x = torch.randn(case.size, sizes.hidden, dtype=getattr(torch, mlp.dtype(case.precision)), device=options.device)
    return Made(module=mlp.build(sizes, case.precision, options.device), inputs=(x,), items=case.size, item=ITEM)


def predict(case: Case, machine: Machine, origin: BytesOrigin | None) -> Run | None:
    """Judge the case by any machine, without torch.

    Returns:
        None for a model that is to be measured, which is counted with what torch dispatches, and for a family of
        models that nobody has planned.
    """
    if "model" in case.settings:
        if case.device:
            return None
        from roofline.sweeps import kv

        model, context = str(case.settings["model"]), int(case.settings["context"])
        return kv.predict(model, context, case.size, case.precision, machine, origin)
    sizes = mlp.of(case.settings)
    name = mlp.dtype(case.precision)
    one = TensorSpec((sizes.hidden, sizes.inner), name).nbytes
    ops = mlp.with_cache(mlp.forward_ops(sizes, case.size, case.precision), one, machine)
    rows = TensorSpec((case.size, sizes.hidden), name).nbytes
    workload = {"target": f"mlp decode, batch {case.size}", "batch": case.size, "items": case.size, "item": ITEM}
    return planned_run(ops, machine, workload, compulsory=2 * sizes.blocks * one + 2 * rows, origin=origin)


def memory_bytes(case: Case) -> float:
    """About what the case needs: weights, and the widest activations in and out; 0 where unknown."""
    if "model" in case.settings:
        return 0.0
    sizes = mlp.of(case.settings)
    item = TensorSpec((1,), mlp.dtype(case.precision)).nbytes
    return item * (sizes.params + 2 * case.size * sizes.inner)


def facts(cases: Sequence[Case], machine: Machine | None) -> dict[str, Any]:
    """What the theory says before anything runs."""
    if not cases or "model" in cases[0].settings:
        return {}
    first = cases[0]
    params = mlp.of(first.settings).params
    item = TensorSpec((1,), mlp.dtype(first.precision)).nbytes
    found: dict[str, Any] = {"params": params, "weight_bytes": params * item}
    if machine is not None:
        ridge = machine.ridge_point(first.precision)
        found |= {
            "ridge_point_flops_per_byte": ridge,
            "ceiling_tokens_per_s": machine.dram.value / (params * item),
            "critical_batch": critical(ridge, item),
        }
    return found


def critical(ridge: float, item_bytes: float) -> float:
    """Rows at which a product with weights of `item_bytes` each reaches the ridge: I = 2·rows / item = ridge."""
    return ridge * item_bytes / 2
