"""Decoders of the Llama kind: RMS norms, rotary positions, gated MLP, and what their families change.

One table says what a family does differently; sizes come from the config.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from roofline.errors import UsageError
from roofline.plan.architecture import Architecture, Layer, Stack
from roofline.plan.parts import Attention, Experts, FeedForward, Matrix, Mlp
from roofline.plan.readers.fields import MOST_LAYERS, Config, count, flag, max_context, missing, size, tied


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """What a family of decoders does, where the config does not say.

    Attributes:
        qkv_bias: Whether queries, keys and values have biases; None: as `attention_bias` says.
        o_bias: Whether the output projection has one; None: as `attention_bias` says.
        qk_norm: Norms on queries and keys: none, one weight per dimension of a head, or one per projected element.
        norms: Norms per layer over the hidden vector.
        norm_weights: Weights of a norm per dimension: 1 for RMS, 2 for LayerNorm with bias, 0 for one without.
        gated: Whether the MLP has a gate.
        mlp_bias: Whether it has biases; None: as `mlp_bias` says.
        tied: Whether embeddings are tied when the config doesn't say.
        head_bias: Whether the head has a bias.
        window: Which layers have a sliding window: none, all, every one but each n-th, or as `layer_types` says.
        pattern: n for that window.
        qk_norm_flag: The field that turns the norms on queries and keys on, where it is a choice.
    """

    qkv_bias: bool | None = None
    o_bias: bool | None = None
    qk_norm: Literal["", "head", "all"] = ""
    norms: int = 2
    norm_weights: int = 1
    gated: bool = True
    mlp_bias: bool | None = None
    tied: bool = False
    head_bias: bool = False
    window: Literal["", "all", "alternate", "flag"] = ""
    pattern: int = 0
    qk_norm_flag: str = ""


STYLES: dict[str, Style] = {
    "llama": Style(),
    "mistral": Style(qkv_bias=False, o_bias=False, mlp_bias=False, window="all"),
    "ministral": Style(qkv_bias=False, o_bias=False, mlp_bias=False),
    "qwen2": Style(qkv_bias=True, o_bias=False, mlp_bias=False, window="flag"),
    "qwen3": Style(qk_norm="head", mlp_bias=False, window="flag"),
    "gemma": Style(tied=True, mlp_bias=False),
    "gemma2": Style(norms=4, tied=True, mlp_bias=False, window="alternate", pattern=2),
    "gemma3_text": Style(norms=4, qk_norm="head", tied=True, mlp_bias=False, window="alternate", pattern=6),
    "phi3": Style(qkv_bias=False, o_bias=False, mlp_bias=False, window="all"),
    "phi": Style(qkv_bias=True, o_bias=True, norms=1, norm_weights=2, gated=False, mlp_bias=True, head_bias=True),
    "olmo": Style(norm_weights=0, mlp_bias=False),
    "olmo2": Style(qk_norm="all", mlp_bias=False),
    "olmo3": Style(qk_norm="all", mlp_bias=False),
    "granite": Style(),
    "stablelm": Style(o_bias=False, norm_weights=2, mlp_bias=False),
    "starcoder2": Style(qkv_bias=True, o_bias=True, norm_weights=2, gated=False, mlp_bias=True, tied=True),
    "cohere": Style(norms=1, tied=True, mlp_bias=False),
    "cohere2": Style(norms=1, tied=True, mlp_bias=False, window="alternate", pattern=4),
    "smollm3": Style(tied=True),
    "glm": Style(qkv_bias=None, o_bias=False, mlp_bias=False),
    "glm4": Style(qkv_bias=None, o_bias=False, norms=4, mlp_bias=False),
    "nemotron": Style(norm_weights=2, gated=False),
    "seed_oss": Style(qkv_bias=None, o_bias=False),
    "mixtral": Style(qkv_bias=False, o_bias=False, window="all"),
    "qwen2_moe": Style(qkv_bias=True, o_bias=False, window="flag"),
    "qwen3_moe": Style(qk_norm="head", window="flag"),
    "olmoe": Style(qk_norm="all"),
    "gpt_oss": Style(),
    "glm4_moe": Style(qkv_bias=None, o_bias=False, qk_norm="head", qk_norm_flag="use_qk_norm"),
    "llama4_text": Style(),
    "minimax_m2": Style(qkv_bias=False, o_bias=False, qk_norm="all"),
    "deepseek": Style(),
}


def read(config: Config, name: str, style: Style | None = None) -> Architecture:
    """Read a decoder of the Llama kind.

    Raises:
        UsageError: A size is missing or senseless.
    """
    kind = str(config["model_type"])
    style = style or STYLES[kind]
    width = size(config, "hidden_size")
    layers = _layers(config, kind, style, width)
    ends = style.norm_weights * width
    vocab = size(config, "vocab_size")
    is_tied = tied(config, style.tied)
    head = () if is_tied else (Matrix("lm_head", width, vocab, vocab * style.head_bias, "head"),)
    return Architecture(
        name=name,
        model_type=kind,
        stack=Stack("layers", width, layers, ends),
        vocab=vocab,
        tied=is_tied,
        head=head,
        mtp=layers[-1:] * count(config, "num_nextn_predict_layers", most=MOST_LAYERS),
        max_context=max_context(config),
    )


def _layers(config: Config, kind: str, style: Style, width: int) -> tuple[Layer, ...]:
    """All layers in order; layers alike are one object."""
    number = size(config, "num_hidden_layers", most=MOST_LAYERS)
    windows = windows_of(config, style, number)
    dense = dense_layers(config, kind, number)
    made: dict[tuple[Any, ...], Layer] = {}
    for window, plain in zip(windows, dense, strict=True):
        if (window, plain) in made:
            continue
        attention = attention_of(config, style, width, window, kind)
        mlp = dense_mlp(config, style, kind) if plain else experts_of(config, kind)
        made[window, plain] = Layer((attention, mlp), style.norms * style.norm_weights * width, style.norms)
    return tuple(made[key] for key in zip(windows, dense, strict=True))


def attention_of(config: Config, style: Style, width: int, window: tuple[int, bool] | None, kind: str) -> Attention:
    """Self-attention of one layer."""
    heads = size(config, "num_attention_heads")
    kv_heads = size(config, "num_key_value_heads", default=heads)
    depth = size(config, "head_dim", default=max(1, width // heads))
    if heads % kv_heads:
        raise UsageError(f"{kv_heads} key/value heads do not divide {heads} heads", "check the config")
    bias = flag(config, "attention_bias")
    qkv = bias if style.qkv_bias is None else style.qkv_bias
    if kind == "stablelm":
        qkv = flag(config, "use_qkv_bias")
    norm = 0
    if style.qk_norm and (not style.qk_norm_flag or flag(config, style.qk_norm_flag)):
        norm = 2 * depth if style.qk_norm == "head" else (heads + kv_heads) * depth
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=depth,
        q_bias=qkv,
        k_bias=qkv,
        v_bias=qkv,
        o_bias=bias if style.o_bias is None else style.o_bias,
        norm_params=norm,
        extra_params=heads if kind == "gpt_oss" else 0,
        window=window[0] if window else None,
        chunked=bool(window and window[1]),
    )


def windows_of(config: Config, style: Style, number: int) -> list[tuple[int, bool] | None]:
    """The window of every layer, and whether it is a fixed block; None where all tokens are seen."""
    if config.get("attention_chunk_size"):
        chunk, every = count(config, "attention_chunk_size"), count(config, "no_rope_layer_interval", default=4)
        return [None if (i + 1) % every == 0 else (chunk, True) for i in range(number)]
    length = count(config, "sliding_window", "sliding_window_size")
    types = config.get("layer_types")
    if isinstance(types, Sequence) and not isinstance(types, str) and len(types) == number:
        # Checkpoints say "sliding_attention"; a layer of any other kind sees everything.
        return [(length, False) if t == "sliding_attention" and length else None for t in types]
    if not length or not _uses_window(config, style):
        return [None] * number
    if style.window == "alternate":
        pattern = count(config, "sliding_window_pattern", "_sliding_window_pattern", default=style.pattern)
        return [None if (i + 1) % pattern == 0 else (length, False) for i in range(number)]
    if style.window == "flag":
        start = count(config, "max_window_layers")
        return [(length, False) if i >= start else None for i in range(number)]
    return [(length, False)] * number


def _uses_window(config: Config, style: Style) -> bool:
    if style.window == "flag":
        return flag(config, "use_sliding_window")
    return style.window in ("all", "alternate")


def dense_layers(config: Config, kind: str, number: int) -> list[bool]:
    """Whether each layer has a plain MLP instead of experts."""
    if kind not in _EXPERTS:
        return [True] * number
    first_dense = count(config, "first_k_dense_replace")
    if kind in ("qwen2_moe", "qwen3_moe"):
        step = count(config, "decoder_sparse_step", default=1)
        only = set(config.get("mlp_only_layers") or ())
        return [i in only or (i + 1) % step != 0 for i in range(number)]
    if kind == "llama4_text":
        step = count(config, "interleave_moe_layer_step", default=1)
        chosen = config.get("moe_layers")
        sparse = set(chosen) if chosen else {i for i in range(number) if (i + 1) % step == 0}
        return [i not in sparse for i in range(number)]
    chosen = config.get("moe_layer_freq")
    if isinstance(chosen, Sequence) and not isinstance(chosen, str):
        if len(chosen) != number:
            raise UsageError(f"moe_layer_freq names {len(chosen)} of {number} layers", "check the config")
        return [not f for f in chosen]
    every = count(config, "moe_layer_freq", default=1)
    return [i < first_dense or i % every != 0 for i in range(number)]


def dense_mlp(config: Config, style: Style, kind: str) -> Mlp:
    """The plain MLP of a layer."""
    bias = flag(config, "mlp_bias") if style.mlp_bias is None else style.mlp_bias
    names = ("intermediate_size_mlp", "intermediate_size") if kind == "llama4_text" else ("intermediate_size",)
    return Mlp(width=size(config, *names), gated=style.gated, bias=bias)


def chosen_experts(config: Config) -> int:
    """How many experts a token goes to.

    Raises:
        UsageError: More than there are.
    """
    top = size(config, "num_experts_per_tok", "experts_per_token", "moe_topk", default=1)
    count = size(config, "n_routed_experts", "num_local_experts", "num_experts")
    if top > count:
        raise UsageError(f"a token goes to {top} of {count} experts", "check num_experts_per_tok")
    return top


def _routed(config: Config) -> Experts:
    """DeepSeek, GLM: routed experts, and shared ones of the same width."""
    width = size(config, "moe_intermediate_size")
    return Experts(
        count=size(config, "n_routed_experts", "num_experts"),
        top=chosen_experts(config),
        width=width,
        shared=width * count(config, "n_shared_experts", "num_shared_experts"),
    )


def _mixtral(config: Config) -> Experts:
    return Experts(
        count=size(config, "num_local_experts"), top=chosen_experts(config), width=size(config, "intermediate_size")
    )


def _qwen(config: Config) -> Experts:
    return Experts(
        count=size(config, "num_experts", "num_local_experts"),
        top=chosen_experts(config),
        width=size(config, "moe_intermediate_size"),
        shared=count(config, "shared_expert_intermediate_size"),
        shared_gate=bool(config.get("shared_expert_intermediate_size")),
    )


def _olmoe(config: Config) -> Experts:
    count = size(config, "num_experts", "num_local_experts")
    return Experts(count=count, top=chosen_experts(config), width=size(config, "intermediate_size"))


def _gpt_oss(config: Config) -> Experts:
    return Experts(
        count=size(config, "num_local_experts", "num_experts"),
        top=chosen_experts(config),
        width=size(config, "intermediate_size"),
        bias=True,
        router_bias=True,
    )


def _llama4(config: Config) -> Experts:
    width = size(config, "intermediate_size")
    return Experts(count=size(config, "num_local_experts"), top=chosen_experts(config), width=width, shared=width)


_EXPERTS: dict[str, Callable[[Config], Experts]] = {
    "mixtral": _mixtral,
    "minimax_m2": _mixtral,
    "qwen2_moe": _qwen,
    "qwen3_moe": _qwen,
    "olmoe": _olmoe,
    "gpt_oss": _gpt_oss,
    "glm4_moe": _routed,
    "llama4_text": _llama4,
    "deepseek": _routed,
    "deepseek_v2": _routed,
    "deepseek_v3": _routed,
    "deepseek_v32": _routed,
    "kimi_k2": _routed,
}


def experts_of(config: Config, kind: str) -> FeedForward:
    """The experts of a layer."""
    if kind not in _EXPERTS:
        raise missing(config, "experts")
    return _EXPERTS[kind](config)
