"""Collectives as ops: what one rank sends, by the ring algorithm, over the links of its node or over the network.

With n ranks and a payload of s bytes: all-reduce 2·s·(n − 1)/n; all-gather of a whole of s, reduce-scatter and
all-to-all s·(n − 1)/n; send s. A group that is larger than a node pays all of its bytes at the network's rate, as a
ring does whose slowest link is the network; hierarchical algorithms send less over it.
"""

from typing import Literal

from roofline.core.run import Phase
from roofline.plan.ops import Op
from roofline.plan.setting import Setting

Pattern = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]


def sent_bytes(pattern: Pattern, payload: float, ranks: int) -> float:
    """Bytes that one rank sends: see the module's table.

    Args:
        pattern: The collective.
        payload: Bytes of the whole tensor (of what this rank holds, for all-to-all and send).
        ranks: Ranks of the group.
    """
    if ranks < 2:
        return 0.0
    if pattern == "send":
        return payload
    share = payload * (ranks - 1) / ranks
    return 2 * share if pattern == "all_reduce" else share


def collective(
    pattern: Pattern,
    module: str,
    payload: float,
    setting: Setting,
    *,
    ranks: int,
    stride: int = 1,
    calls: int = 1,
    phase: Phase = "forward",
) -> Op:
    """The op of one collective.

    Args:
        pattern: The collective.
        module: What it serves.
        payload: Bytes per call.
        setting: Names the precision and the size of a node.
        ranks: Ranks of the group.
        stride: Distance between neighbours of the group in the numbering of ranks.
        calls: How often it runs.
        phase: Of the step.
    """
    sent = sent_bytes(pattern, payload, ranks) * calls
    across = setting.parallel.spans_nodes(ranks, stride)
    adds = pattern in ("all_reduce", "reduce_scatter")
    elements = payload * calls / setting.item
    return Op(
        name=pattern,
        module=module,
        kind="collective",
        calls=calls,
        shapes=f"{payload:.0f} B over {ranks} ranks",
        precision=setting.precision,
        phase=phase,
        vector=elements * (ranks - 1) / ranks if adds else 0,
        input_bytes=payload * calls,
        output_bytes=payload * calls,
        network_bytes=sent if across else 0,
        node_bytes=0 if across else sent,
    )
