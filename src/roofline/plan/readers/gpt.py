"""The GPT-2 kind and encoders of its time: LayerNorm with biases, plain MLP, learned positions."""

from roofline.plan.architecture import Architecture, Layer, Stack
from roofline.plan.parts import Attention, Matrix, Mlp
from roofline.plan.readers.fields import MOST_LAYERS, Config, flag, max_context, size, tied


def gpt2(config: Config, name: str) -> Architecture:
    """GPT-2 and GPT-BigCode (the latter with one key head)."""
    width, heads = size(config, "n_embd", "hidden_size"), size(config, "n_head", "num_attention_heads")
    mqa = config["model_type"] == "gpt_bigcode" and flag(config, "multi_query", True)
    layer = _layer(width, heads, 1 if mqa else heads, size(config, "n_inner", default=4 * width), bias=True)
    positions = size(config, "n_positions") * width
    return _decoder(config, name, width, layer, positions=positions, tied_default=True)


def gptj(config: Config, name: str) -> Architecture:
    """GPT-J: one norm for attention and MLP in parallel; no attention biases; a biased head."""
    width, heads = size(config, "n_embd"), size(config, "n_head")
    attention = Attention(heads=heads, kv_heads=heads, head_dim=width // heads)
    inner = size(config, "n_inner", default=4 * width)
    layer = Layer((attention, Mlp(width=inner, gated=False, bias=True)), 2 * width, 1)
    return _decoder(config, name, width, layer, head_bias=True)


def gpt_neox(config: Config, name: str) -> Architecture:
    """GPT-NeoX, Pythia: rotary positions, an untied head."""
    width, heads = size(config, "hidden_size"), size(config, "num_attention_heads")
    bias = flag(config, "attention_bias", True)
    layer = _layer(width, heads, heads, size(config, "intermediate_size"), bias=bias, mlp_bias=True)
    return _decoder(config, name, width, layer)


def opt(config: Config, name: str) -> Architecture:
    """OPT: learned positions with an offset of 2, ReLU."""
    width, heads = size(config, "hidden_size"), size(config, "num_attention_heads")
    layer = _layer(width, heads, heads, size(config, "ffn_dim"), bias=flag(config, "enable_bias", True))
    positions = (size(config, "max_position_embeddings") + 2) * width
    return _decoder(config, name, width, layer, positions=positions, tied_default=True)


def bloom(config: Config, name: str) -> Architecture:
    """BLOOM: ALiBi, a norm over the embedding."""
    width, heads = size(config, "hidden_size", "n_embed"), size(config, "n_head", "num_attention_heads")
    layer = _layer(width, heads, heads, 4 * width, bias=True)
    return _decoder(config, name, width, layer, positions=2 * width, tied_default=True)


def falcon(config: Config, name: str) -> Architecture:
    """Falcon: attention and MLP in parallel; one key head, or groups in the newer architecture."""
    width, heads = size(config, "hidden_size"), size(config, "num_attention_heads", "n_head")
    new = flag(config, "new_decoder_architecture")
    kv_heads = size(config, "num_kv_heads", "n_head_kv", default=heads) if new else heads
    if not new and flag(config, "multi_query", True):
        kv_heads = 1
    bias = flag(config, "bias")
    one_norm = flag(config, "parallel_attn", True) and not new
    norms = 1 if one_norm or (new and config.get("num_ln_in_parallel_attn") == 1) else 2
    attention = Attention(
        heads=heads, kv_heads=kv_heads, head_dim=width // heads, q_bias=bias, k_bias=bias, v_bias=bias, o_bias=bias
    )
    inner = size(config, "ffn_hidden_size", default=4 * width)
    layer = Layer((attention, Mlp(width=inner, gated=False, bias=bias)), 2 * norms * width, norms)
    return _decoder(config, name, width, layer, tied_default=True)


def bert(config: Config, name: str) -> Architecture:
    """BERT, RoBERTa: an encoder with a masked-language head; it does not generate."""
    width, heads = size(config, "hidden_size"), size(config, "num_attention_heads")
    layer = _layer(width, heads, heads, size(config, "intermediate_size"), bias=True, causal=False)
    tables = size(config, "max_position_embeddings") + size(config, "type_vocab_size", default=2)
    vocab = size(config, "vocab_size")
    return Architecture(
        name=name,
        model_type=str(config["model_type"]),
        stack=Stack("encoder.layer", width, (layer,) * size(config, "num_hidden_layers", most=MOST_LAYERS)),
        vocab=vocab,
        positions=(tables + 2) * width,
        tied=True,
        head=(Matrix("transform", width, width, width, "other"),),
        head_params=2 * width + vocab,
        generates=False,
        max_context=max_context(config),
    )


def _layer(
    width: int,
    heads: int,
    kv_heads: int,
    inner: int,
    *,
    bias: bool,
    mlp_bias: bool | None = None,
    causal: bool = True,
) -> Layer:
    """Attention, plain MLP, two LayerNorms with biases."""
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width // heads,
        q_bias=bias,
        k_bias=bias,
        v_bias=bias,
        o_bias=bias,
        causal=causal,
    )
    mlp = Mlp(width=inner, gated=False, bias=bias if mlp_bias is None else mlp_bias)
    return Layer((attention, mlp), 4 * width)


def _decoder(
    config: Config,
    name: str,
    width: int,
    layer: Layer,
    *,
    positions: int = 0,
    tied_default: bool = False,
    head_bias: bool = False,
) -> Architecture:
    vocab, is_tied = size(config, "vocab_size"), tied(config, tied_default)
    number = size(config, "num_hidden_layers", "n_layer", most=MOST_LAYERS)
    return Architecture(
        name=name,
        model_type=str(config["model_type"]),
        stack=Stack("layers", width, (layer,) * number, 2 * width),
        vocab=vocab,
        positions=positions,
        tied=is_tied,
        head=() if is_tied else (Matrix("lm_head", width, vocab, vocab * head_bias, "head"),),
        max_context=max_context(config),
    )
