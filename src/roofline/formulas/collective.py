"""Collective communication: bytes that this rank sends, and the memory it reads and writes.

With n ranks and a payload of s bytes on each, by the ring algorithm:

| op | bytes sent per rank |
|---|---|
| all-reduce | 2·s·(n − 1)/n: reduce-scatter, then all-gather |
| all-gather of shards of s | s·(n − 1) |
| reduce-scatter of s | s·(n − 1)/n |
| all-to-all of s | s·(n − 1)/n |
| broadcast, send, scatter, reduce, gather | s |

Reductions add 1 FLOP per element received.

n comes from the arguments where they carry it: a group size, a list of splits, one tensor per rank, the ratio of
output to input. Elsewhere the limit of many ranks, (n − 1)/n → 1, stands for it, and the count is an upper estimate.

Not counted: tree and in-network algorithms, which send less; protocol overhead; whether a link is shared.
"""

from collections.abc import Sequence
from typing import Any

from roofline.formulas.arithmetic import arithmetic, elements, moves, position, spell
from roofline.formulas.registry import Cost, formula, free
from roofline.formulas.spec import TensorSpec, tensors

free(
    *spell("_c10d_functional", "wait_tensor _wrap_tensor_autograd irecv"),
    *spell("c10d", "barrier monitored_barrier_"),
)
formula("c10d.check_for_nan")(moves)


def _bytes(tree: Any) -> float:
    return sum(t.nbytes for t in tensors(tree))


def _adds(tree: Any) -> float:
    return elements(tree) * arithmetic(tree, 1, 2)


def _away(ranks: float | None) -> float:
    """Share of a payload that goes to other ranks, (n − 1)/n; its limit 1 where n is unknown."""
    return (ranks - 1) / ranks if ranks else 1.0


def _ratio(larger: Any, smaller: Any) -> float | None:
    """Ranks of a group, from the sizes of a whole and of its shards."""
    return _bytes(larger) / _bytes(smaller) if _bytes(smaller) else None


@formula(*spell("_c10d_functional", "all_reduce all_reduce_ all_reduce_coalesced all_reduce_coalesced_"))
@formula(*spell("c10d", "allreduce_ allreduce_coalesced_"))
def all_reduce(x: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Ring all-reduce: 2·s bytes, the limit of many ranks; 1 FLOP per element."""
    return Cost(vector=_adds(x), network_bytes=2 * _bytes(x), formula="estimate")


@formula(
    *spell("_c10d_functional", "all_gather_into_tensor all_gather_into_tensor_coalesced all_gather_into_tensor_out")
)
@formula(*spell("_c10d_functional_autograd", "all_gather_into_tensor"))
def all_gather(x: Any, group: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Ring all-gather of shards of s bytes on n ranks: s·(n − 1)."""
    ranks = group if isinstance(group, int) else _ratio(out, x) or 1
    return Cost(network_bytes=_bytes(x) * (ranks - 1))


@formula(*spell("c10d", "_allgather_base_ allgather_ allgather_coalesced_ allgather_into_tensor_coalesced_"))
def all_gather_into(outputs: Any, inputs: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Ring all-gather into given tensors: their bytes less the rank's own."""
    return Cost(
        network_bytes=max(_bytes(outputs) - _bytes(inputs), 0), read=dict.fromkeys(range(position(outputs)), 0)
    )


@formula(
    *spell("_c10d_functional", "reduce_scatter_tensor reduce_scatter_tensor_coalesced reduce_scatter_tensor_out"),
    *spell("_c10d_functional_autograd", "reduce_scatter_tensor"),
)
def reduce_scatter(x: Any, op: str, group: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Ring reduce-scatter of s bytes on n ranks: s·(n − 1)/n; 1 FLOP per element received."""
    away = _away(group if isinstance(group, int) else _ratio(x, out))
    return Cost(vector=_adds(x) * away, network_bytes=_bytes(x) * away)


@formula(*spell("c10d", "_reduce_scatter_base_ reduce_scatter_ reduce_scatter_tensor_coalesced_"))
def reduce_scatter_into(outputs: Any, inputs: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Ring reduce-scatter into given tensors: s·(n − 1)/n; 1 FLOP per element received."""
    away = _away(_ratio(inputs, outputs))
    read = dict.fromkeys(range(position(outputs)), 0)
    return Cost(vector=_adds(inputs) * away, network_bytes=_bytes(inputs) * away, read=read)


@formula(*spell("_c10d_functional", "all_to_all_single"))
@formula(*spell("_c10d_functional_autograd", "all_to_all_single"))
def all_to_all(x: TensorSpec, out_splits: Any, in_splits: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """All-to-all of s bytes on n ranks: s·(n − 1)/n, an estimate where the splits differ."""
    ranks = len(in_splits) if isinstance(in_splits, Sequence) and in_splits else None
    even = ranks is not None and len(set(in_splits)) == 1
    return Cost(network_bytes=x.nbytes * _away(ranks), formula="exact" if even else "estimate")


@formula("c10d.alltoall_")
def all_to_all_list(outputs: Any, inputs: Sequence[TensorSpec], *args: Any, out: Any, **_: Any) -> Cost:
    """All-to-all of one tensor per rank: s·(n − 1)/n."""
    read = dict.fromkeys(range(position(outputs)), 0)
    return Cost(network_bytes=_bytes(inputs) * _away(len(inputs)), read=read)


@formula("c10d.alltoall_base_")
def all_to_all_into(output: TensorSpec, x: TensorSpec, group: Any, *splits: Any, out: Any, **_: Any) -> Cost:
    """All-to-all into a given tensor: s·(n − 1)/n, an estimate where the splits are not given."""
    ranks = len(splits[1]) if len(splits) > 1 and isinstance(splits[1], Sequence) and splits[1] else None
    return Cost(network_bytes=x.nbytes * _away(ranks), read={0: 0}, formula="exact" if ranks else "estimate")


@formula(*spell("_c10d_functional", "broadcast broadcast_ isend"))
@formula(*spell("c10d", "broadcast_ send"))
def send(x: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Send, or pass on a broadcast around the ring: s bytes."""
    return Cost(network_bytes=_bytes(x), formula="estimate")


@formula(*spell("c10d", "reduce_"))
def reduce(x: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Reduce to one rank along the ring: s bytes; 1 FLOP per element."""
    return Cost(vector=_adds(x), network_bytes=_bytes(x), formula="estimate")


@formula(*spell("c10d", "gather_ scatter_ gather_into_tensor_"))
def gather(outputs: Any, inputs: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Gather to or scatter from one rank: what it sends, s bytes; an estimate, as the root sends more or nothing."""
    return Cost(network_bytes=_bytes(inputs), read=dict.fromkeys(range(position(outputs)), 0), formula="estimate")


@formula(*spell("c10d", "recv_ recv_any_source_"))
def receive(x: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Receive: the tensors are written, nothing is sent."""
    return Cost(read=dict.fromkeys(range(position(x)), 0))


@formula("_c10d_functional.batch_p2p_ops")
def batch_p2p(
    ops: Sequence[str], peers: Any, tags: Any, buffers: Sequence[TensorSpec], *args: Any, out: Any, **_: Any
) -> Cost:
    """Sends and receives together: the bytes of the sends."""
    return Cost(network_bytes=sum(t.nbytes for op, t in zip(ops, buffers, strict=True) if "send" in op))
