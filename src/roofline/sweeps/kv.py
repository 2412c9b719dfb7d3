"""Decode of a transformers model: one new token per sequence, with a cache that holds the context already."""

from typing import Any

import msgspec

from roofline.analysis import judge
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.run import BytesOrigin, Run
from roofline.errors import UsageError
from roofline.sweeps.mlp import dtype
from roofline.targets.made import Made, Target
from roofline.targets.options import Options
from roofline.targets.packages import need


def target(model: str, context: int, precision: Precision) -> Target:
    """Find `transformers:PATH` and make its decode step.

    Args:
        model: transformers:CONFIG.json or the folder that holds it.
        context: Tokens in the cache of every sequence before the step.
        precision: Of the weights and the cache.

    Raises:
        UsageError: There is no such config, or it is no language model with a cache.
    """
    from roofline.targets import from_transformers

    inner = from_transformers.target(_path(model))
    return Target(_label(model, context), lambda options: _make(inner, context, precision, options))


def predict(
    model: str, context: int, batch: int, precision: Precision, machine: Machine, origin: BytesOrigin | None
) -> Run | None:
    """Judge a decode step by any machine, without torch: as the planner plans it, one ideal kernel per op.

    What torch dispatches is more: a dynamic cache is copied at every step, and norms are several kernels.

    Returns:
        None for a family of models that the planner does not know.

    Raises:
        UsageError: There is no such config.
    """
    from roofline.plan.config import load
    from roofline.plan.planner import plan, run_of
    from roofline.plan.workload import Workload
    from roofline.targets import from_transformers

    # Refuses what could not be measured either: a name of the catalogue, a folder without a config.
    from_transformers.target(_path(model))
    try:
        architecture = load(_path(model))
    except UsageError:
        return None
    kind = precision.value
    workload = Workload(phase="decode", batch=batch, context=context, precision=precision, weights=kind, kv=kind)
    run = run_of(plan(architecture, machine, workload))
    named = {"target": _label(model, context), "items": batch, "item": "token"}
    return judge(msgspec.structs.replace(run, workload={**run.workload, **named}), origin=origin)


def _label(model: str, context: int) -> str:
    return f"{model} decode, context {context}"


def _path(model: str) -> str:
    source, _, path = model.partition(":")
    if source != "transformers" or not path:
        raise UsageError(f'--model is "{model}"', "give mlp, or transformers:CONFIG.json")
    return path


def _make(inner: Target, context: int, precision: Precision, options: Options) -> Made:
    import torch

    transformers = need("transformers", "transformers")
    made = inner.make(options)
    if made.keywords.get("input_ids") is None:
        raise UsageError(f"{inner.label} reads no tokens", "decode takes a language model")
    module = _cast(made.module, getattr(torch, dtype(precision)))
    config = module.config
    config.use_cache = True
    batch = options.batch or 1
    cache = _filled_cache(transformers, config.get_text_config(), batch, context, module.dtype, options.device)
    ids = torch.zeros(batch, 1, dtype=torch.int64, device=options.device)
    return Made(module=_step_of(module, cache), inputs=(ids,), items=batch, item="token")


def _cast(module: Any, kind: Any) -> Any:
    """Weights in the precision of the case; by `.data`, which works on fake parameters too."""
    for parameter in module.parameters():
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(kind)
    return module


def _filled_cache(transformers: Any, config: Any, batch: int, context: int, kind: Any, device: str) -> Any:
    """A dynamic cache with `context` tokens per sequence; transformers says how wide each layer's is."""
    import torch

    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = transformers.DynamicCache()
    for layer in range(config.num_hidden_layers):
        keys = torch.zeros(batch, heads, context, width, dtype=kind, device=device)
        cache.update(keys, keys.clone(), layer)
    return cache


def _step_of(module: Any, cache: Any) -> Any:
    from inspect import signature

    import torch

    # transformers is about to rename the argument.
    name = "cache" if "cache" in signature(module.forward).parameters else "past_key_values"

    class DecodeStep(torch.nn.Module):
        """Runs one token through the model, then drops it from the cache again: every step is the same."""

        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.model(input_ids=ids, use_cache=True, **{name: cache}).logits
            cache.crop(-ids.shape[1])
            return logits

    return DecodeStep()
