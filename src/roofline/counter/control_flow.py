"""Higher-order ops as the ops that they run: branches, loops, scans, subgraphs.

torch's own dense kernels of most of them refuse to run under any mode, so their loops are called here by what is
under the kernel.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
import torch._higher_order_ops.utils

Body = Callable[..., Any]


def body_of(func: Any) -> Body | None:
    """What a higher-order op runs on plain tensors; None if nobody knows.

    A `while_loop` asks its condition for a value, which a fake tensor refuses: such a program is counted over a
    real run.
    """
    name = func.name()
    if name in _BODIES:
        return _BODIES[name]
    body: Body | None = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
    return body


@contextmanager
def eager() -> Iterator[None]:
    """Run compiled functions as their plain Python, compiling nothing, in the block.

    Loops of torch are the exception: they compile their body (for no backend) to find the tensors that it closes
    over, which else would get no gradient.
    """
    utils = torch._higher_order_ops.utils
    lifted: Body | None = getattr(utils, "_hop_compile_and_call", None)
    loops = patch.object(utils, "_hop_compile_and_call", _compiled(lifted)) if lifted else nullcontext()
    with torch.compiler.set_stance("force_eager"), loops, warnings.catch_warnings():
        # It is not compiled here alone: the program's own call may be.
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        yield


def _compiled(lifted: Body) -> Body:
    def run(*args: Any) -> Any:
        with torch.compiler.set_stance("default"):
            return lifted(*args)

    return run


def _scan(combine: Body, init: Any, xs: Any, additional_inputs: Any, *_: Any, **__: Any) -> Any:
    from torch._higher_order_ops.scan import generic_scan

    return generic_scan(combine, init, xs, additional_inputs=additional_inputs)


def _associative_scan(combine: Body, xs: Any, additional_inputs: Any = (), *_: Any, **__: Any) -> Any:
    from torch._higher_order_ops.associative_scan import generic_associative_scan

    return generic_associative_scan(combine, xs, additional_inputs=additional_inputs)


def _subgraph(graph: Body, _identifier: Any, *operands: Any, **_: Any) -> Any:
    return graph(*operands)


_BODIES: dict[str, Body] = {"scan": _scan, "associative_scan": _associative_scan, "invoke_subgraph": _subgraph}
