"""The Python interface: measure or count a module or a step that the caller holds."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.run import BytesOrigin, Run
from roofline.errors import UsageError
from roofline.targets.made import Made, Target
from roofline.targets.options import Options

Cast = Literal["bf16", "fp16", "fp32"]


def measure(
    program: Callable[..., Any],
    *inputs: Any,
    keywords: Mapping[str, Any] | None = None,
    train: bool = False,
    precision: Cast | None = None,
    compile: bool = False,
    machine: str | Machine | None = None,
    seconds: float = 10.0,
    bytes_origin: BytesOrigin | None = None,
    progress: Callable[[str], None] | None = None,
) -> Run:
    """Measure a program: count it, time it, say which ceiling binds.

    The program's modules, gradients, optimizers and random states are as before afterwards.

    Args:
        program: A module, a function of `inputs`, or a step that takes nothing.
        *inputs: What it is called with.
        keywords: Keyword inputs.
        train: Forward and backward of a module (a step decides for itself). A module in training mode stays in it.
        precision: "bf16" or "fp16" autocast; None is the program's own.
        compile: Time it through torch.compile.
        machine: Whose roof: a name, or a Machine; None is the device's own.
        seconds: Time to spend timing, s.
        bytes_origin: Which count of bytes to judge by; None takes the best at hand.
        progress: Called with one line per step, such as `print`.

    Returns:
        The judged Run; `run.save("x.json")`, `run.report("x.html")`.

    Raises:
        RooflineError: The program fails, or can't be judged.
    """
    from roofline.counter.isolation import untouched
    from roofline.pipeline import measure_target, own_machine

    options = _options(program, inputs, train=train, precision=precision, compiled=compile)
    say = progress or _silent
    with untouched(values=True), _inputs_kept(inputs, keywords):
        return measure_target(
            _target(program, inputs, keywords),
            options,
            lambda: _machine(machine) or own_machine(options.device, say),
            seconds=seconds,
            origin=bytes_origin,
            say=say,
        )


def count(
    program: Callable[..., Any],
    *inputs: Any,
    keywords: Mapping[str, Any] | None = None,
    train: bool = False,
    precision: Cast | None = None,
    fused: bool = False,
    machine: str | Machine | None = None,
    bytes_origin: BytesOrigin | None = None,
) -> Run:
    """Count the FLOP and bytes of a program on fake tensors; nothing is timed.

    A program that needs a value (`.item()`, a data-dependent shape) is run once for real, and the Run says so.

    Args:
        program: A module, a function of `inputs`, or a step that takes nothing.
        *inputs: What it is called with.
        keywords: Keyword inputs.
        train: Forward and backward of a module.
        precision: "bf16" or "fp16" autocast; None is the program's own.
        fused: Also count the bytes of the graph that torch.compile would make of it (origin `fused`); takes longer.
        machine: Whose roof to judge by, a name or a Machine; None leaves the Run unjudged, without `cached` bytes.
        bytes_origin: Which count of bytes to judge by; None takes the best at hand.

    Returns:
        The Run; `run.flops`, `run.bytes`, `run.ops`, `run.modules`, `run.coverage`.

    Raises:
        RooflineError: The program fails, or can't be judged.
    """
    from roofline.pipeline import count_target

    options = _options(program, inputs, train=train, precision=precision, compiled=fused)
    target = _target(program, inputs, keywords)
    with _inputs_kept(inputs, keywords):
        return count_target(target, options, _machine(machine), origin=bytes_origin, may_run=True)


def devices(*names: str) -> list[Machine]:
    """Machines by key, full name or the driver's device name; all of the database without a name.

    Raises:
        MachineError: A name is unknown or ambiguous.
    """
    from roofline import machines

    return [machines.resolve(name) for name in names] if names else machines.all_machines()


@contextmanager
def _inputs_kept(inputs: tuple[Any, ...], keywords: Mapping[str, Any] | None) -> Iterator[None]:
    """Put back inputs that the program changes in place."""
    import torch
    from torch.utils._pytree import tree_leaves

    held = [t for t in tree_leaves([inputs, dict(keywords or {})]) if isinstance(t, torch.Tensor)]
    plain = [t for t in held if t.layout == torch.strided and not t.is_nested and t.device.type != "meta"]
    saved = [(t, t.detach().clone()) for t in plain]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, before in saved:
                # Equal NaNs differ; copying those back changes nothing.
                if not torch.equal(tensor, before):
                    tensor.copy_(before)


def _target(program: Callable[..., Any], inputs: tuple[Any, ...], keywords: Mapping[str, Any] | None) -> Target:
    import torch

    named = keywords or {}
    if isinstance(program, torch.nn.Module):
        made = Made(module=program, inputs=inputs, keywords=named, own=True)
        return Target(type(program).__name__, lambda options: made)
    label = getattr(program, "__qualname__", type(program).__name__)
    return Target(label, lambda options: Made(step=lambda: program(*inputs, **named), own=True))


def _options(
    program: Callable[..., Any], inputs: tuple[Any, ...], *, train: bool, precision: Cast | None, compiled: bool
) -> Options:
    if not callable(program):
        raise UsageError(f"can't run a {type(program).__name__}", "give a module, a function, or a step")
    return Options(
        train=train,
        precision=Precision(precision) if precision else None,
        compiled=compiled,
        device=_device(program, inputs),
    )


def _device(program: Any, inputs: tuple[Any, ...]) -> str:
    """Where the program lives: the device of its parameters, else of its inputs; CPU for meta tensors."""
    import torch
    from torch.utils._pytree import tree_leaves

    held = list(program.parameters()) if isinstance(program, torch.nn.Module) else []
    tensors = [t for t in (*held, *tree_leaves(list(inputs))) if isinstance(t, torch.Tensor)]
    places = {str(t.device) for t in tensors} - {"meta"}
    return sorted(places, key=lambda p: p.startswith("cpu"))[0] if places else "cpu"


def _machine(machine: str | Machine | None) -> Machine | None:
    if not isinstance(machine, str):
        return machine
    from roofline import machines

    return machines.resolve(machine)


def _silent(line: str) -> None:
    """Say nothing."""
