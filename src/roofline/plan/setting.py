"""What every op of a plan depends on: the workload, how weights and caches are stored, how ranks are grouped."""

import msgspec

from roofline.core.precision import Precision
from roofline.plan.architecture import Architecture
from roofline.plan.weights import Format, Storage, find_format, storage
from roofline.plan.workload import Parallel, Workload


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The constants of one plan.

    Attributes:
        workload: One step.
        parallel: How it is split.
        storage: Formats of the weights.
        kv: Format of the cache.
    """

    workload: Workload
    parallel: Parallel
    storage: Storage
    kv: Format

    @property
    def precision(self) -> Precision:
        """Of activations."""
        return self.workload.precision

    @property
    def item(self) -> int:
        """Bytes of one activation."""
        return self.workload.activation_bytes

    @property
    def kv_item(self) -> float:
        """Bytes of one element of the cache, scales included."""
        return self.kv.bits / 8

    @property
    def trains(self) -> bool:
        """Whether there is a backward pass, and so no cache."""
        return self.workload.phase == "train"


class Flow(msgspec.Struct, frozen=True):
    """Tokens that go through a stack on one rank.

    Attributes:
        sequences: Sequences.
        queries: New tokens per sequence, on this rank.
        past: Tokens that are in the cache.
        source: Tokens of the other sequence, where there is one.
        fresh_source: Whether that sequence is new, so that its keys and values are to be made.
        split: Ranks of context parallelism that share a sequence: its new tokens, or in decode its cache.
    """

    sequences: int
    queries: int
    past: int = 0
    source: int = 0
    fresh_source: bool = False
    split: int = 1

    @property
    def tokens(self) -> int:
        """New tokens, all sequences together."""
        return self.sequences * self.queries

    @property
    def whole_queries(self) -> int:
        """New tokens per sequence on all ranks together."""
        return self.queries if self.queries == 1 else self.queries * self.split


def setting(architecture: Architecture, workload: Workload, parallel: Parallel) -> Setting:
    """Check a workload and resolve its formats.

    Raises:
        UsageError: A size or a format makes no sense.
    """
    workload.check()
    parallel.check(workload.batch)
    precision = workload.precision if workload.precision != Precision.TF32 else Precision.FP32
    return Setting(
        workload=workload,
        parallel=parallel,
        storage=storage(architecture.dtype, architecture.quantization, workload.weights, precision),
        kv=_kv_format(workload),
    )


def _kv_format(workload: Workload) -> Format:
    if workload.kv is not None:
        return find_format(workload.kv)
    return find_format({1: "fp8", 2: "bf16", 4: "fp32"}[workload.activation_bytes])
