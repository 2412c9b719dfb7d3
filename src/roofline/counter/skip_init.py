"""Build modules without computing initial values: on fake tensors there are none, and some initialisers look."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch


@contextmanager
def skipped_init() -> Iterator[None]:
    """Make torch.nn.init's in-place initialisers return their tensor as it is, inside the block."""
    names = [n for n in vars(torch.nn.init) if n.endswith("_") and not n.endswith("__")]
    with patch.dict(vars(torch.nn.init), dict.fromkeys(names, _as_it_is)):
        yield


def _as_it_is(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    return tensor
