"""The facts that conventions need, read off an architecture."""

from roofline.errors import UsageError
from roofline.plan.architecture import Architecture, Layer
from roofline.plan.conventions.facts import AttentionLayers, ModelFacts
from roofline.plan.parts import Attention, Experts, LatentAttention, Part, Recurrent

_CACHE_BYTES = 2


def facts_of(architecture: Architecture) -> ModelFacts:
    """Read parameter counts and attention widths off an architecture; a vision or sound tower is left out.

    The KV cache is taken at BF16, 2 bytes per element.

    Raises:
        UsageError: The model reads one sequence and writes another: no published convention says what a token is.
    """
    groups = architecture.stack.groups()
    if any(isinstance(p, Attention) and p.is_cross for layer, _ in groups for p in layer.parts):
        raise UsageError(
            f"{architecture.name} attends to a second sequence, and the MFU conventions count tokens of one",
            "count its program: roofline count transformers:CONFIG.json",
        )
    tower = architecture.tower.params() if architecture.tower else 0
    width = architecture.width
    vectors = sum(n * _vectors(layer, width) for layer, n in groups) + sum(m.bias for m in architecture.head)
    return ModelFacts(
        name=architecture.name + (" (without its tower)" if tower else ""),
        parameters=architecture.params() - tower,
        active=architecture.active_params() - tower,
        input_embedding=architecture.embedding_params,
        output_head=architecture.head_matrix_params,
        position_embedding=architecture.positions,
        tied=architecture.tied,
        vectors=vectors + architecture.stack.final_norm + architecture.head_params,
        attention=tuple(a for layer, n in groups for part in layer.parts for a in _attention(part, n)),
        kv_bytes_per_token=architecture.kv_elements_per_token() * _CACHE_BYTES,
        notes=_notes(architecture, tower),
    )


def _notes(architecture: Architecture, tower: int) -> tuple[str, ...]:
    recurrent = sum(
        n for layer, n in architecture.stack.groups() if any(isinstance(p, Recurrent) for p in layer.parts)
    )
    found = [*architecture.notes]
    if recurrent:
        found.append(f"no convention counts the recurrence of {recurrent} layers: all of them are lower bounds")
    if tower:
        found.append("tokens of the decoder are counted, its tower is not: lower bounds where it runs")
    return tuple(found)


def _vectors(layer: Layer, width: int) -> int:
    """Weights of a layer that one token uses outside matrix products: norms, biases, convolutions along time."""
    return layer.active_params(width) - sum(_matrix_weights(p, width) for p in layer.parts) - _further(layer)


def _further(layer: Layer) -> int:
    return sum(m.weights for m in layer.matrices)


def _matrix_weights(part: Part, width: int) -> int:
    if isinstance(part, Experts):
        always = sum(m.weights for m in part.always(width))
        return always + part.top * sum(m.weights for m in part.one().matrices(width))
    own = sum(m.weights for m in part.matrices(width))
    return own + (part.up_projection().weights if isinstance(part, LatentAttention) else 0)


def _attention(part: Part, layers: int) -> tuple[AttentionLayers, ...]:
    if isinstance(part, Attention):
        return (
            AttentionLayers(
                layers=layers,
                heads=part.heads,
                qk_head_dim=part.head_dim,
                v_head_dim=part.head_dim,
                window=part.window,
                chunked=part.chunked,
                causal=part.causal,
            ),
        )
    if isinstance(part, LatentAttention):
        return _latent(part, layers)
    return ()


def _latent(part: LatentAttention, layers: int) -> tuple[AttentionLayers, ...]:
    """Latent attention as it is trained; an indexer scores every token, and attention reads those that it chose."""
    main = AttentionLayers(
        layers=layers,
        heads=part.heads,
        qk_head_dim=part.nope + part.rope,
        v_head_dim=part.value,
        window=part.index_tokens or None,
    )
    if not part.index_heads:
        return (main,)
    return (main, AttentionLayers(layers=layers, heads=part.index_heads, qk_head_dim=part.index_dim, v_head_dim=0))
