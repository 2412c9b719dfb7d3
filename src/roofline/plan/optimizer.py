"""What training adds to a rank's step: AdamW, and the exchange of gradients and weights among replicas."""

from collections.abc import Iterator

from roofline.core.precision import Precision
from roofline.plan.architecture import Architecture
from roofline.plan.collectives import collective
from roofline.plan.ops import Op
from roofline.plan.setting import Setting

# AdamW in mixed precision: FP32 master weights and two FP32 moments.
STATE_BYTES = 12
ADAMW_FLOPS = 14


def trained_params(local: Architecture, setting: Setting) -> float:
    """Weights of this rank's share of the model."""
    return local.params()


def optimizer_op(local: Architecture, setting: Setting) -> Op:
    """AdamW over this rank's weights: reads and writes master weights and moments, reads gradients, writes weights.

    Bytes per weight: 2 · 12 + 2 · item. ZeRO of any stage splits it over the replicas.
    """
    shards = setting.parallel.dp if setting.parallel.zero else 1
    params = trained_params(local, setting) / shards
    return Op(
        name="adamw",
        module="optimizer",
        kind="optimizer",
        shapes=f"{params:.0f}",
        precision=Precision.FP32,
        phase="optimizer",
        vector=ADAMW_FLOPS * params,
        state_bytes=params * (2 * STATE_BYTES + 2 * setting.item),
        exact=False,
    )


def data_parallel_ops(local: Architecture, setting: Setting) -> Iterator[Op]:
    """Collectives among replicas, once per step.

    Plain: gradients are all-reduced. ZeRO 1 and 2: gradients are reduce-scattered, weights all-gathered, which sends
    as much. ZeRO 3: weights are all-gathered for forward and again for backward, gradients reduce-scattered.
    """
    parallel = setting.parallel
    if parallel.dp == 1:
        return
    payload = trained_params(local, setting) * setting.item
    stride = parallel.tp * parallel.cp
    share = {"ranks": parallel.dp, "stride": stride}
    if parallel.zero == 0:
        yield collective("all_reduce", "gradients", payload, setting, phase="backward", **share)
        return
    yield collective("reduce_scatter", "gradients", payload, setting, phase="backward", **share)
    yield collective("all_gather", "weights", payload, setting, phase="forward", **share)
    if parallel.zero == 3:
        yield collective("all_gather", "weights", payload, setting, phase="backward", **share)
