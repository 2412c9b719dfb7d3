"""Bytes of the fused graph (origin `fused`), from TorchInductor's own accounting of what it would emit.

Two ways to the same accounting. `count_fused` compiles the program on fake tensors as far as the schedule, in which
fusion is decided, and generates no code: no compiler is needed and nothing runs. `FusedBytes` listens in while a
program really compiles.
"""

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FunctionType
from typing import Any, NamedTuple
from unittest.mock import patch
from weakref import ReferenceType

import torch
import torch._functorch.config
import torch._inductor.compile_fx as inductor
import torch._inductor.config
from torch import nn
from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo import convert_frame
from torch._dynamo.guards import DeletedGuardManagerWrapper
from torch._functorch.aot_autograd import make_boxed_func
from torch._inductor.graph import GraphLowering
from torch._subclasses.fake_tensor import FakeTensorMode

from roofline.counter.fake_build import build_fake
from roofline.counter.isolation import untouched
from roofline.counter.modules import ModuleTracker
from roofline.counter.program import Program
from roofline.counter.recorder import Recorder


class FusedCount(NamedTuple):
    """What a compiled step reads and writes.

    Attributes:
        bytes: Bytes of its fused kernels and of the ops that stay outside of any graph; None if unknown.
        graphs: How often compiled graphs ran: forward and backward, split where the program can't be one graph.
        why: Why the bytes are unknown.
    """

    bytes: float | None
    graphs: int = 0
    why: str = ""


def count_fused(build: Callable[[], Program]) -> FusedCount:
    """Count what one step would move through torch.compile with TorchInductor, forward and backward.

    A buffer that stays inside a kernel counts nothing. What is not compiled (an optimizer's step outside, ops between
    two graphs) counts as the `operator` origin does. The first step compiles; a second one is counted, in which
    every graph counts as often as it runs.

    Not counted: traffic inside library kernels (a matmul that re-reads its tiles), code that a GPU would fuse
    differently from the device that the program is on.

    Args:
        build: Makes the program, with its module or step under torch.compile.
    """
    count = _Count()
    try:
        with untouched(values=False), FakeTensorMode(allow_non_fake_inputs=True) as fake, _scheduling(count):
            program = build_fake(build, fake)
            program.step()
            count.moved, count.graphs = 0.0, 0
            outside = _Outside(count, fake)
            with outside:
                program.step()
    except Exception as error:  # noqa: BLE001 — whatever stops the compiler, the other counts stand
        return FusedCount(None, why=_reason(error))
    if not count.graphs:
        return FusedCount(None, why="torch.compile made no graph of it")
    return FusedCount(count.moved + sum(c.operator_bytes for c in outside.calls), count.graphs)


class _Count:
    """What the compiled graphs moved so far, how many ran, and whether one is running or being compiled now."""

    def __init__(self) -> None:
        self.moved = 0.0
        self.graphs = 0
        self.busy = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1


_present = [_Count()]


@contextmanager
def _scheduling(count: _Count) -> Iterator[None]:
    """Let torch.compile stop at the schedule, inside the block."""
    compile_really = torch.compile

    def compile_here(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda model: compile_here(model, **options)
        plain = getattr(model, "_orig_mod", model)
        kept = {k: v for k, v in options.items() if k in ("fullgraph", "dynamic")}
        compiled = compile_really(_with_code_of_its_own(plain), backend=_schedule_only, **kept)
        return _CompiledModule(plain, compiled) if isinstance(plain, nn.Module) else compiled

    with patch.object(torch, "compile", compile_here), _no_caches():
        _present.append(count)
        try:
            yield
        finally:
            _present.pop()
            _forget_compiled()


class _CompiledModule(nn.Module):
    """A module whose call goes through the compiled function; it shows the attributes of the module inside."""

    def __init__(self, module: nn.Module, compiled: Callable[..., Any]) -> None:
        super().__init__()
        self._orig_mod = module
        self.forward = compiled

    def __getattr__(self, name: str) -> Any:
        return self._modules["_orig_mod"] if name == "_orig_mod" else getattr(self._orig_mod, name)


def _with_code_of_its_own(called: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a callable in a new code object, by which Dynamo files what it compiles.

    Filed under the program's own code, it would count towards the recompilations that the program may have.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return called(*args, **kwargs)

    code = call.__code__.replace(co_name=f"counted_{next(_numbers)}")
    return FunctionType(code, call.__globals__, closure=call.__closure__)


_numbers = itertools.count()


def _schedule_only(graph: Any, inputs: Any) -> Any:
    """A backend of torch.compile of its own: what it makes never serves a program that runs."""
    return inductor.compile_fx(graph, inputs, inner_compile=_compile)


def _forget_compiled() -> None:
    """Void what was compiled here of the program's own functions: those that Dynamo took up after a graph break."""
    for held in list(convert_frame.input_codes.seen):
        code = held() if isinstance(held, ReferenceType) else held
        for entry in _debug_get_cache_entry_list(code) if code is not None else ():
            if getattr(entry.backend, "compiler_fn", entry.backend) is _schedule_only:
                guards = entry.guard_manager
                guards.extra_state.invalidate(guards.cache_entry, DeletedGuardManagerWrapper("counted, not compiled"))


class _Scheduled(BaseException):
    """Ends a compilation once the schedule is made; no `except Exception` on the way may take it for a failure."""


def _compile(graph: Any, inputs: Any, **options: Any) -> Callable[..., Any]:
    """Compile a graph up to its schedule; it runs as it was traced, and adds its bytes whenever it runs."""
    as_traced = copy.deepcopy(graph)  # compiling rewrites the graph
    moved = 0.0

    def stop(lowered: GraphLowering) -> None:
        nonlocal moved
        lowered.init_wrapper_code()
        lowered._update_scheduler()
        moved = float(lowered.count_bytes()[0])
        raise _Scheduled

    with _present[-1].at_work(), patch.object(GraphLowering, "compile_to_module", stop), suppress(_Scheduled):
        inductor.compile_fx_inner(graph, inputs, **options)

    def run(*args: Any) -> Any:
        count = _present[-1]
        count.moved += moved
        count.graphs += 1
        with count.at_work():
            return as_traced.forward(*args)

    return make_boxed_func(run)


class _Outside(Recorder):
    """Records the ops that run outside of compiled graphs."""

    def __init__(self, count: _Count, fake: FakeTensorMode) -> None:
        super().__init__(ModuleTracker(None), fake)
        self._count = count

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record an op, unless a graph is running or the compiler is at work."""
        if self._count.busy or torch._guards.CompileContext.try_get() is not None:
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)


class FusedBytes:
    """Adds up what the graphs compiled inside `watching` read and write.

    Attributes:
        graphs: How many graphs were compiled.
        total: Bytes that their fused kernels read and write; a buffer that stays inside a kernel counts nothing.
    """

    def __init__(self) -> None:
        self.graphs = 0
        self.total = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count graphs compiled in the block."""
        compile_graph = GraphLowering.compile_to_module

        def counted(graph: GraphLowering) -> object:
            module = compile_graph(graph)
            self.graphs += 1
            self.total += float(graph.count_bytes()[0])
            return module

        with patch.object(GraphLowering, "compile_to_module", counted), _no_caches():
            yield


@contextmanager
def _no_caches() -> Iterator[None]:
    """Turn off what would hand out a compiled graph without making its schedule."""
    with (
        torch._inductor.config.patch(fx_graph_cache=False, fx_graph_remote_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield


def _reason(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:160]}" if text else type(error).__name__
