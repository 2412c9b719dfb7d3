"""Causal attention written out in matmuls: how much of it is needed.

Where no fused kernel serves (meta tensors, dropout on a CPU), `scaled_dot_product_attention` becomes plain matmuls
below autograd, and that it was causal is lost. So the call itself is watched, by the name under which models call
it; a TorchFunctionMode would switch off the fast paths of nn.MultiheadAttention.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from roofline.formulas.attention import attention_pairs

_PRODUCTS = ("aten.bmm", "aten.mm", "aten.baddbmm")


class CausalScopes:
    """Knows which ops run inside a causal attention call, or differentiate one."""

    def __init__(self) -> None:
        self._now: float | None = None
        self._starts: list[int] = []
        self._scopes: list[tuple[int, float]] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the calls inside the block."""
        plain = torch.nn.functional.scaled_dot_product_attention

        def watched(query: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
            causal = args[3] if len(args) > 3 else kwargs.get("is_causal", False)
            if not causal:
                return plain(query, key, *args, **kwargs)
            with self._inside(query.shape[-2], key.shape[-2]):
                return plain(query, key, *args, **kwargs)

        with (
            patch.object(torch.nn.functional, "scaled_dot_product_attention", watched),
            patch.object(torch._C._nn, "scaled_dot_product_attention", watched),
        ):
            yield

    def needed_fraction(self, op: str) -> float | None:
        """Share of a matmul's work that lies under the diagonal; None for an op outside any causal call."""
        if op not in _PRODUCTS:
            return None
        node = torch._C._current_autograd_node()
        if node is None:
            return self._now
        place = bisect_right(self._starts, node._sequence_nr()) - 1
        if place < 0:
            return None
        stop, fraction = self._scopes[place]
        return fraction if node._sequence_nr() < stop else None

    @contextmanager
    def _inside(self, queries: int, keys: int) -> Iterator[None]:
        outer, self._now = self._now, attention_pairs(queries, keys, causal=True) / (queries * keys)
        start, fraction = torch._C._autograd._get_sequence_nr(), self._now
        try:
            yield
        finally:
            self._now = outer
            self._starts.append(start)
            self._scopes.append((torch._C._autograd._get_sequence_nr(), fraction))
