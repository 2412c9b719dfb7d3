"""From a target's parts and the options to a step to count or time."""

from typing import Any

from roofline.core.precision import Precision
from roofline.errors import UsageError
from roofline.targets.made import Made, Target
from roofline.targets.meta import is_fake, is_meta, no_data, placed
from roofline.targets.options import Options


def program(target: Target, options: Options) -> tuple[Any, Made]:
    """Make a fresh program.

    Returns:
        The `roofline.counter.Program`, and the parts that it was made from.

    Raises:
        UsageError: The options don't fit the target.
    """
    from roofline.counter.program import Program, caster, inference, training

    made = target.make(options)
    cast = caster(options.device, options.precision)
    if made.step is not None:
        return Program(_step(made, options, cast)), made
    module, inputs, keywords = made.module, list(made.inputs), dict(made.keywords)
    made = made._replace(meta=is_meta(module, inputs, keywords))
    if made.meta and not made.own:
        if not is_fake(module, inputs, keywords):
            raise no_data(target.label)
        module = placed(module, options.device)
    if not made.own:
        module = _placed(module, options.device).train(options.train)
        inputs, keywords = _moved(inputs, options), _moved(keywords, options)
    if options.channels_last:
        module = _channels_last(module)
    called = _compiled(module) if options.compiled else module
    if options.train:
        return training(called, inputs, keywords, cast=cast, optimizer=options.optimizer)._replace(root=module), made
    return inference(called, inputs, keywords, cast=cast)._replace(root=module), made


def _step(made: Made, options: Options, cast: Any) -> Any:
    if options.train or options.optimizer or options.channels_last:
        raise UsageError(
            "--train, --optimizer and --channels-last need a module", "the factory's step decides these itself"
        )
    step = made.step
    assert step is not None
    if options.compiled:
        step = _compiled(step)
    if options.precision in (None, Precision.FP32):
        return step

    def under_autocast() -> Any:
        with cast():
            return step()

    return under_autocast


def _compiled(called: Any) -> Any:
    import torch

    return torch.compile(called)


def _placed(module: Any, device: str) -> Any:
    """The module on the device; left alone where it is there already, as fake parameters can't be moved."""
    import torch

    kind = torch.device(device).type
    return module if all(p.device.type == kind for p in module.parameters()) else module.to(device)


def _channels_last(module: Any) -> Any:
    """Convolution weights in channels-last layout; by `.data`, which works on fake parameters too."""
    import torch

    for parameter in module.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return module


def _moved(tree: Any, options: Options) -> Any:
    """Inputs on the device, images in the layout asked for."""
    import torch
    from torch.utils._pytree import tree_map

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        is_empty = value.device.type == "meta"
        value = torch.empty_like(value, device=options.device) if is_empty else value.to(options.device)
        images = options.channels_last and value.ndim == 4
        return value.contiguous(memory_format=torch.channels_last) if images else value

    return tree_map(move, tree)
