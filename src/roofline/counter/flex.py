"""How much of flex_attention is needed: the pairs that its mask's own function keeps.

The blocks that run are in the block mask; which pairs inside a block count only `mask_mod` knows. It is called
here on real indices, a few rows at a time.
"""

from typing import Any

import msgspec
import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes

from roofline.formulas.registry import Cost, Rule

# Position of the block mask among the arguments of each op.
FLEX_OPS = {"higher_order.flex_attention": 4, "higher_order.flex_attention_backward": 9}
# Pairs of indices looked at in one call (their Booleans and integers stay under 100 MB), and in all.
_PAIRS_AT_ONCE = 2**22
_MOST_PAIRS = 2**27


class MaskedPairs:
    """Counts the pairs that mask functions keep, each function and size once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], float | None] = {}

    def refined(self, cost: Cost, op: str, rule: Rule, args: Any, specs: Any) -> Cost:
        """The cost with its needed work, where the mask can be evaluated; else as it was, an estimate.

        Args:
            cost: What the rule says from the block mask alone.
            op: The op's name.
            rule: The op's rule.
            args: The arguments.
            specs: The arguments with shape records for tensors.
        """
        place = FLEX_OPS[op]
        fraction = self._kept_fraction(args, args[place])
        if fraction is None:
            return cost
        square = rule(*specs[:place], None, *specs[place + 1 :], out=None)
        blocks_known = specs[place][2].values is not None
        needed = round(square.matrix * fraction)
        return msgspec.structs.replace(cost, needed=needed, formula="exact" if blocks_known else "estimate")

    def _kept_fraction(self, args: Any, block_mask: Any) -> float | None:
        """Share of the full square of queries × keys that is needed; None where the mask can't be evaluated."""
        mask, buffers = block_mask[-1], args[-1] if isinstance(args[-1], tuple) else ()
        queries, keys = int(args[0].shape[-2]), int(args[1].shape[-2])
        batch, heads = map(int, block_mask[2].shape[:2])
        pairs = batch * heads * queries * keys
        if pairs > _MOST_PAIRS or not callable(mask) or any(isinstance(b, FakeTensor) for b in buffers):
            return None
        key = (mask, batch, heads, queries, keys, *map(id, buffers))
        if key not in self._known:
            self._known[key] = _kept(mask, buffers, batch, heads, queries, keys)
        kept = self._known[key]
        return None if kept is None else kept / pairs


def _kept(mask: Any, buffers: Any, batch: int, heads: int, queries: int, keys: int) -> float | None:
    rows = max(1, _PAIRS_AT_ONCE // keys)
    kept = 0
    try:
        with unset_fake_temporarily(), _disable_current_modes(), torch.no_grad():
            keep = torch.vmap(torch.vmap(mask, (None, None, None, 0)), (None, None, 0, None))
            for b in range(batch):
                for h in range(heads):
                    for start in range(0, queries, rows):
                        q = torch.arange(start, min(start + rows, queries))
                        found = keep(torch.tensor(b), torch.tensor(h), q, torch.arange(keys), *buffers)
                        kept += int(found.sum())
    except Exception:  # noqa: BLE001 — the mask is the user's; without it the count says "estimate"
        return None
    return kept
