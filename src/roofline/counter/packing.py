"""Keep transformers from taking one sequence for several because its positions are fake.

transformers looks into the position ids for packed sequences. Where it can't look (tracing, fake tensors) it assumes
the worst and gives attention a mask written out, so that the counted program would no longer be the one that runs:
that one has no mask, and is causal by flag.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes


@contextmanager
def positions_seen() -> Iterator[None]:
    """Answer the look inside the block: the caller's own positions as they are, fake ones as one sequence.

    A model makes its positions itself unless the caller gives some, and what it makes is one sequence.
    """
    masks = sys.modules.get("transformers.masking_utils")
    look = getattr(masks, "find_packed_sequence_indices", None)
    if masks is None or look is None:
        yield
        return

    def answer(position_ids: Any) -> Any:
        if isinstance(position_ids, FakeTensor):
            return None
        with _disable_current_modes():
            return look(position_ids)

    with patch.object(masks, "find_packed_sequence_indices", answer):
        yield
