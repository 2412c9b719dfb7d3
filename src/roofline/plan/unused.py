"""Options that would change nothing: each is refused, for who gives one expects the figures to follow it."""

from collections.abc import Iterator

from roofline.errors import UsageError
from roofline.plan.architecture import Architecture
from roofline.plan.parts import Experts, LatentAttention
from roofline.plan.workload import Parallel, Workload


def refuse_unused(architecture: Architecture, workload: Workload, parallel: Parallel) -> None:
    """Refuse an option of the workload or the split that this model or phase has no use for.

    Raises:
        UsageError: There is one; the message says what it is for.
    """
    for option, given, used, purpose in _options(architecture, workload, parallel):
        if given and not used:
            raise UsageError(f"{option} changes nothing here: it is for {purpose}", f"leave {option} out")


def _options(
    architecture: Architecture, workload: Workload, parallel: Parallel
) -> Iterator[tuple[str, bool, bool, str]]:
    """Every option with whether it is given, whether it has an effect, and what it is for."""
    tower, phase = architecture.tower, workload.phase
    parts = [part for layer, _ in architecture.stack.groups() for part in layer.parts]
    sees = tower is not None and tower.kind == "image"
    crosses = architecture.source_tokens is not None or any(getattr(part, "is_cross", False) for part in parts)
    yield "--images", workload.images > 0, sees, "models with a vision tower"
    yield "--images", workload.images > 0, phase != "decode", "--phase prefill or train, which read the images"
    yield "--source", workload.source is not None, crosses, "models that read a second sequence (encoder–decoder)"
    latent = any(isinstance(part, LatentAttention) for part in parts)
    yield "--latent", workload.latent != "auto", latent, "models with latent attention (DeepSeek's)"
    yield "--ep", parallel.ep > 1, any(isinstance(part, Experts) for part in parts), "models with experts"
    yield "--zero", parallel.zero > 0, phase == "train", "--phase train, whose optimizer state it shards"
    yield "--zero", parallel.zero > 0, parallel.dp > 1, "more than one replica (--dp), over which it shards"
    yield "--recompute", workload.recompute != "none", phase == "train", "--phase train"
    yield "--chunk", workload.chunk is not None, phase == "prefill", "--phase prefill"
    cached = phase != "train" and architecture.model_type != "napkin" and not architecture.is_tower
    keeps = "models with a cache, in --phase decode or prefill"
    yield "--context", workload.context > 0, cached, keeps
    yield "--kv", workload.kv is not None, cached, keeps
    yield "--tokens", workload.tokens is not None, not architecture.is_tower, "models of text"
