"""DeepSeek V2, V3, V3.2 and models built like them (Kimi K2, GLM-5): latent attention, routed experts."""

from roofline.plan.architecture import Architecture, Layer, Stack
from roofline.plan.parts import LatentAttention, Matrix
from roofline.plan.readers.fields import MOST_LAYERS, Config, count, flag, max_context, size, tied
from roofline.plan.readers.llama import STYLES, dense_layers, dense_mlp, experts_of


def read(config: Config, name: str) -> Architecture:
    """Read a decoder with latent attention.

    Raises:
        UsageError: A size is missing or senseless.
    """
    kind, width = str(config["model_type"]), size(config, "hidden_size")
    family = kind if kind in ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2") else "deepseek_v3"
    attention = latent_attention(config)
    dense = Layer((attention, dense_mlp(config, STYLES["mistral"], kind)), 2 * width)
    sparse = Layer((attention, experts_of(config, family)), 2 * width)
    plain = dense_layers(config, family, size(config, "num_hidden_layers", most=MOST_LAYERS))
    layers = tuple(dense if p else sparse for p in plain)
    vocab, is_tied = size(config, "vocab_size"), tied(config, False)
    return Architecture(
        name=name,
        model_type=kind,
        stack=Stack("layers", width, layers, width),
        vocab=vocab,
        tied=is_tied,
        head=() if is_tied else (Matrix("lm_head", width, vocab, 0, "head"),),
        mtp=(layers[-1],) * count(config, "num_nextn_predict_layers", most=MOST_LAYERS),
        max_context=max_context(config),
    )


def latent_attention(config: Config) -> LatentAttention:
    """The attention of every layer."""
    bias = flag(config, "attention_bias")
    # The class of DeepSeek V2 in transformers has a query rank by default; checkpoints without one say null.
    rank = config.get("q_lora_rank", 1536 if config.get("model_type") == "deepseek_v2" else None)
    return LatentAttention(
        heads=size(config, "num_attention_heads"),
        q_rank=count({"q_lora_rank": rank}, "q_lora_rank") or None,
        kv_rank=size(config, "kv_lora_rank"),
        nope=size(config, "qk_nope_head_dim"),
        rope=size(config, "qk_rope_head_dim"),
        value=size(config, "v_head_dim"),
        q_bias=bias,
        o_bias=bias,
        index_heads=count(config, "index_n_heads"),
        index_dim=count(config, "index_head_dim"),
        index_tokens=count(config, "index_topk"),
    )
