"""Programs of many ranks: what one rank does, what all do together, and the size of the group that it talks to.

A count is made in one process, so it is one rank's: the shards that it holds, the collectives that it takes part in.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import _disable_current_modes

from roofline.counter.call import OpCall
from roofline.formulas.registry import Cost

_NAMESPACES = ("c10d.", "_c10d_functional.", "_c10d_functional_autograd.")
# Ops whose formula, not knowing the size n of the group, takes (n − 1)/n for 1.
_SCALED = ("all_reduce", "allreduce", "all_to_all_single", "alltoall_base")
_POINT_TO_POINT = ("c10d.send", "c10d.recv_", "_c10d_functional.isend", "_c10d_functional.batch_p2p_ops")


def is_collective(op: str) -> bool:
    """Whether an op talks to other ranks."""
    return op.startswith(_NAMESPACES)


def in_group(cost: Cost, op: str, args: Sequence[Any]) -> Cost:
    """The cost of a collective in the group that its arguments name.

    The ring formulas hold (n − 1)/n of the payload to be sent; a group of one rank sends nothing.
    """
    ranks = group_size(args)
    if ranks is None:
        return cost
    if ranks == 1:
        return msgspec.structs.replace(cost, network_bytes=0, formula="exact")
    if cost.formula == "estimate" and op.partition(".")[2].startswith(_SCALED):
        return msgspec.structs.replace(cost, network_bytes=cost.network_bytes * (ranks - 1) / ranks, formula="exact")
    return cost


def group_size(args: Sequence[Any]) -> int | None:
    """Ranks of the process group among the arguments of a collective, given by name or as an object."""
    if not dist.is_available():
        return None
    for value in reversed(args):
        try:
            if isinstance(value, str):
                return int(dist.distributed_c10d._resolve_process_group(value).size())
            if isinstance(value, dist.ProcessGroup):
                return int(value.size())
            if isinstance(value, torch.ScriptObject):
                return int(dist.ProcessGroup.unbox(value).size())
        except (RuntimeError, ValueError, LookupError, TypeError):
            continue  # a string that names an operation ("sum"), an object that is no group
    return None


@contextmanager
def shapes_unseen() -> Iterator[None]:
    """Hide from the count how DTensor finds shapes: it runs each op on fake tensors of the global size first."""
    module = sys.modules.get("torch.distributed.tensor._sharding_prop")
    kind = getattr(module, "ShardingPropagator", None)
    with ExitStack() as patches:
        for name in [n for n in vars(kind) if n.startswith("_propagate_tensor_meta")] if kind else ():
            patches.enter_context(patch.object(kind, name, _unseen(getattr(kind, name))))
        yield


def _unseen(method: Any) -> Any:
    def hidden(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return method(*args, **kwargs)

    return hidden


def ranks_of(calls: Sequence[OpCall]) -> dict[str, Any] | None:
    """Describe whose work was counted; None for a program of one process.

    All ranks together do `ranks` times what this one does, as each runs the same program on shards of the same
    size. That does not hold for the stages of a pipeline, which send to one another: there the whole is unknown.
    """
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return None
    ranks = dist.get_world_size()
    described: dict[str, Any] = {"ranks": ranks, "rank": dist.get_rank(), "figures": "per rank"}
    if any(c.name in _POINT_TO_POINT for c in calls):
        return {**described, "global": None}
    needed = sum(0 if c.recomputed else c.cost.matrix if c.cost.needed is None else c.cost.needed for c in calls)
    return {
        **described,
        "global": {
            "needed_flops": ranks * needed,
            "executed_flops": ranks * sum(c.cost.matrix for c in calls),
            "network_bytes": ranks * sum(c.cost.network_bytes for c in calls),
        },
    }
