"""Models with a recurrent state: Mamba, Mamba-2, hybrids with attention (Nemotron-H, Qwen3-Next)."""

from collections.abc import Callable

from roofline.errors import UsageError
from roofline.plan.architecture import Architecture, Layer, Stack
from roofline.plan.parts import Attention, DeltaNet, Experts, Mamba, Mamba2, Matrix, Mlp, Part
from roofline.plan.readers.fields import MOST_LAYERS, Config, count, flag, max_context, size, tied
from roofline.plan.readers.llama import chosen_experts


def mamba(config: Config, name: str) -> Architecture:
    """Mamba-1."""
    width = size(config, "hidden_size", "d_model")
    inner = size(config, "intermediate_size", default=count(config, "expand", default=2) * width)
    rank = config.get("time_step_rank")
    mixer = Mamba(
        width=inner,
        state=size(config, "state_size"),
        dt_rank=-(-width // 16) if rank in (None, "auto") else size(config, "time_step_rank"),
        conv=size(config, "conv_kernel"),
        bias=flag(config, "use_bias"),
        conv_bias=flag(config, "use_conv_bias", True),
    )
    return _whole(config, name, width, (Layer((mixer,), width, 1),) * _number(config), tied_default=True)


def mamba2(config: Config, name: str) -> Architecture:
    """Mamba-2."""
    width = size(config, "hidden_size", "d_model")
    mixer = Mamba2(
        heads=size(config, "num_heads"),
        head_dim=size(config, "head_dim"),
        state=size(config, "state_size"),
        groups=size(config, "n_groups"),
        conv=size(config, "conv_kernel"),
        chunk=size(config, "chunk_size", default=256),
        bias=flag(config, "use_bias"),
        conv_bias=flag(config, "use_conv_bias", True),
    )
    return _whole(config, name, width, (Layer((mixer,), width, 1),) * _number(config))


def nemotron_h(config: Config, name: str) -> Architecture:
    """Nemotron-H: every layer is one of Mamba-2 (M), attention (*), a plain MLP (-) or experts (E)."""
    width = size(config, "hidden_size")
    pattern = str(config.get("hybrid_override_pattern") or "")
    if not pattern:
        kinds = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
        pattern = "".join(kinds.get(str(k), "?") for k in config.get("layers_block_type") or ())
    made: dict[str, Layer] = {}
    for kind in dict.fromkeys(pattern):
        if kind not in _NEMOTRON:
            raise UsageError(f'layer "{kind}" of hybrid_override_pattern is unknown', "known are M, *, - and E")
        made[kind] = Layer((_NEMOTRON[kind](config),), width, 1)
    if not made:
        raise UsageError("the config has no hybrid_override_pattern", "give the complete config.json of the model")
    return _whole(config, name, width, tuple(made[kind] for kind in pattern))


def qwen3_next(config: Config, name: str) -> Architecture:
    """Qwen3-Next: gated delta rule in most layers, gated attention in every fourth, experts in all."""
    width, number = size(config, "hidden_size"), _number(config)
    types = config.get("layer_types")
    every = size(config, "full_attention_interval", default=4)
    full = [t == "full_attention" for t in types] if types else [(i + 1) % every == 0 for i in range(number)]
    heads, depth = size(config, "num_attention_heads"), size(config, "head_dim", default=256)
    attention = Attention(
        heads=heads,
        kv_heads=size(config, "num_key_value_heads"),
        head_dim=depth,
        norm_params=2 * depth,
        gated=True,
    )
    delta = DeltaNet(
        key_heads=size(config, "linear_num_key_heads"),
        value_heads=size(config, "linear_num_value_heads"),
        key_dim=size(config, "linear_key_head_dim"),
        value_dim=size(config, "linear_value_head_dim"),
        conv=size(config, "linear_conv_kernel_dim"),
    )
    shared = count(config, "shared_expert_intermediate_size")
    experts = Experts(
        count=size(config, "num_experts", "num_local_experts"),
        top=chosen_experts(config),
        width=size(config, "moe_intermediate_size"),
        shared=shared,
        shared_gate=bool(shared),
    )
    layers = {True: Layer((attention, experts), 2 * width), False: Layer((delta, experts), 2 * width)}
    return _whole(config, name, width, tuple(layers[f] for f in full))


def _nemotron_mamba(config: Config) -> Mamba2:
    return Mamba2(
        heads=size(config, "mamba_num_heads"),
        head_dim=size(config, "mamba_head_dim"),
        state=size(config, "ssm_state_size"),
        groups=size(config, "n_groups"),
        conv=size(config, "conv_kernel", default=4),
        chunk=size(config, "chunk_size", default=128),
        bias=flag(config, "use_bias") or flag(config, "mamba_proj_bias"),
        conv_bias=flag(config, "use_conv_bias", True),
    )


def _nemotron_attention(config: Config) -> Attention:
    heads = size(config, "num_attention_heads")
    bias = flag(config, "attention_bias")
    return Attention(
        heads=heads,
        kv_heads=size(config, "num_key_value_heads", default=heads),
        head_dim=size(config, "head_dim", "attention_head_dim", default=128),
        q_bias=bias,
        k_bias=bias,
        v_bias=bias,
        o_bias=bias,
    )


def _nemotron_mlp(config: Config) -> Mlp:
    return Mlp(width=size(config, "intermediate_size"), gated=False, bias=flag(config, "mlp_bias"))


def _nemotron_experts(config: Config) -> Experts:
    if config.get("moe_latent_size"):
        raise UsageError("experts on a latent vector (moe_latent_size) are not known", "add --like nemotron_h")
    return Experts(
        count=size(config, "n_routed_experts"),
        top=chosen_experts(config),
        width=size(config, "moe_intermediate_size"),
        gated=False,
        shared=count(config, "moe_shared_expert_intermediate_size") * count(config, "n_shared_experts", default=1),
    )


_NEMOTRON: dict[str, Callable[[Config], Part]] = {
    "M": _nemotron_mamba,
    "*": _nemotron_attention,
    "-": _nemotron_mlp,
    "E": _nemotron_experts,
}


def _number(config: Config) -> int:
    return size(config, "num_hidden_layers", "n_layer", most=MOST_LAYERS)


def _whole(
    config: Config, name: str, width: int, layers: tuple[Layer, ...], tied_default: bool = False
) -> Architecture:
    vocab, is_tied = size(config, "vocab_size"), tied(config, tied_default)
    return Architecture(
        name=name,
        model_type=str(config["model_type"]),
        stack=Stack("layers", width, layers, width),
        vocab=vocab,
        tied=is_tied,
        head=() if is_tied else (Matrix("lm_head", width, vocab, 0, "head"),),
        max_context=max_context(config),
    )
