"""Models of two stacks and models of images: T5, Whisper, Qwen3-VL, Llama 4, Gemma 3, ViT."""

from typing import Any

import msgspec

from roofline.plan.architecture import Architecture, Layer, Stack, Tower
from roofline.plan.parts import Attention, Matrix, Mlp
from roofline.plan.readers import llama
from roofline.plan.readers.fields import MOST_LAYERS, Config, flag, max_context, size, tied


def t5(config: Config, name: str) -> Architecture:
    """T5, Flan-T5, mT5: RMS norms, one table of relative positions per stack, no biases."""
    width, heads = size(config, "d_model"), size(config, "num_heads")
    depth = size(config, "d_kv")
    gated = flag(config, "is_gated_act") or str(config.get("feed_forward_proj", "")).startswith("gated")
    mlp = Mlp(width=size(config, "d_ff"), gated=gated)
    table = size(config, "relative_attention_num_buckets", default=32) * heads
    number = size(config, "num_layers", most=MOST_LAYERS)

    def attention(**more: Any) -> Attention:
        return Attention(heads=heads, kv_heads=heads, head_dim=depth, **more)

    encoder = Layer((attention(causal=False), mlp), 2 * width)
    decoder = Layer((attention(), attention(causal=False, source_width=width), mlp), 3 * width, 3)
    vocab, is_tied = size(config, "vocab_size"), tied(config, True)
    tower = Tower(stack=Stack("encoder.block", width, (encoder,) * number, width), kind="text", extra_params=table)
    return Architecture(
        name=name,
        model_type=str(config["model_type"]),
        stack=Stack(
            "decoder.block",
            width,
            (decoder,) * size(config, "num_decoder_layers", default=number, most=MOST_LAYERS),
            width,
        ),
        vocab=vocab,
        positions=table,
        tied=is_tied,
        head=() if is_tied else (Matrix("lm_head", width, vocab, 0, "head"),),
        tower=tower,
        max_context=size(config, "n_positions", default=512),
    )


def whisper(config: Config, name: str) -> Architecture:
    """Whisper: two convolutions over the mel spectrogram, an encoder, a decoder that attends to it."""
    width, bins = size(config, "d_model"), size(config, "num_mel_bins")
    sources = size(config, "max_source_positions")

    def attention(heads: int, **more: Any) -> Attention:
        return Attention(
            heads=heads, kv_heads=heads, head_dim=width // heads, q_bias=True, v_bias=True, o_bias=True, **more
        )

    heads = size(config, "encoder_attention_heads")
    mlp = Mlp(width=size(config, "encoder_ffn_dim"), gated=False, bias=True)
    encoder = Layer((attention(heads, causal=False), mlp), 4 * width)
    heads = size(config, "decoder_attention_heads")
    mlp = Mlp(width=size(config, "decoder_ffn_dim"), gated=False, bias=True)
    cross = attention(heads, causal=False, source_width=width)
    decoder = Layer((attention(heads), cross, mlp), 6 * width, 3)
    # The first convolution keeps the length, twice the encoder's; the second halves it.
    embed = ((Matrix("conv1", 3 * bins, width, width), 2.0), (Matrix("conv2", 3 * width, width, width), 1.0))
    tower = Tower(
        stack=Stack(
            "encoder.layers", width, (encoder,) * size(config, "encoder_layers", most=MOST_LAYERS), 2 * width
        ),
        kind="audio",
        tokens=sources,
        embed=embed,
        extra_params=sources * width,
    )
    vocab = size(config, "vocab_size")
    return Architecture(
        name=name,
        model_type=str(config["model_type"]),
        stack=Stack(
            "decoder.layers", width, (decoder,) * size(config, "decoder_layers", most=MOST_LAYERS), 2 * width
        ),
        vocab=vocab,
        positions=size(config, "max_target_positions") * width,
        tied=True,
        tower=tower,
        max_context=size(config, "max_target_positions"),
    )


def qwen3_vl(config: Config, name: str) -> Architecture:
    """Qwen3-VL: a vision tower whose patches merge by four, three further mergers for deep features, a decoder."""
    text = {**config["text_config"]}
    kind = {"qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe"}[str(text["model_type"])]
    text |= {"model_type": kind, "tie_word_embeddings": tied(config, False)}
    vision = config["vision_config"]
    width, out = size(vision, "hidden_size"), size(vision, "out_hidden_size")
    merge = size(vision, "spatial_merge_size") ** 2
    taps = size(vision, "in_channels") * size(vision, "temporal_patch_size") * size(vision, "patch_size") ** 2
    depth = len(vision.get("deepstack_visual_indexes") or ())
    merged = merge * width
    mergers = tuple(
        Matrix(f"{where}.{n}", merged, o, o)
        for where in ("merger", *(f"deepstack_merger_list.{i}" for i in range(depth)))
        for n, o in (("linear_fc1", merged), ("linear_fc2", out))
    )
    tower = Tower(
        stack=vision_stack("visual.blocks", vision, width, size(vision, "depth", most=MOST_LAYERS)),
        kind="image",
        tokens=size(vision, "num_position_embeddings"),
        embed=((Matrix("patch_embed", taps, width, width), 1.0),),
        extra_params=size(vision, "num_position_embeddings") * width,
        merge=merge,
        merger=mergers,
        merger_norm=2 * width + depth * 2 * merged,
    )
    return msgspec.structs.replace(
        llama.read(text, name), model_type=str(config["model_type"]), tower=tower, max_context=max_context(text)
    )


def vision_stack(path: str, vision: Config, width: int, number: int, final_norm: int = 0) -> Stack:
    """The layers of a vision transformer: biases everywhere, LayerNorm, a plain MLP."""
    heads = size(vision, "num_heads", "num_attention_heads")
    attention = Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=width // heads,
        q_bias=True,
        k_bias=True,
        v_bias=True,
        o_bias=True,
        causal=False,
    )
    mlp = Mlp(width=size(vision, "intermediate_size"), gated=False, bias=True)
    return Stack(path, width, (Layer((attention, mlp), 4 * width),) * number, final_norm)


def vit(config: Config, name: str) -> Architecture:
    """Vision transformer with a classifier; one forward pass per batch of images."""
    width, number = size(config, "hidden_size"), size(config, "num_hidden_layers", most=MOST_LAYERS)
    patches = (size(config, "image_size") // size(config, "patch_size")) ** 2
    taps = size(config, "num_channels", default=3) * size(config, "patch_size") ** 2
    labels = len(config.get("id2label") or ()) or size(config, "num_labels", default=2)
    return Architecture(
        name=name,
        model_type=str(config["model_type"]),
        stack=Stack("encoder.layer", width, (), 0),
        vocab=0,
        head=(Matrix("classifier", width, labels, labels, "head"),),
        tower=Tower(
            stack=vision_stack("encoder.layer", config, width, number, 2 * width),
            kind="image",
            tokens=patches + 1,
            embed=((Matrix("patch_embed", taps, width, width), patches / (patches + 1)),),
            extra_params=(patches + 2) * width,
        ),
        generates=False,
    )


def text_only(config: Config, name: str) -> Architecture:
    """A multimodal config whose tower is not modelled: the decoder alone, which the plan says."""
    text = {**config["text_config"]}
    if "tie_word_embeddings" not in text and "tie_word_embeddings" in config:
        text["tie_word_embeddings"] = config["tie_word_embeddings"]
    for key in ("vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim"):
        if key not in text and key in config:
            text[key] = config[key]
    note = "the text decoder alone: its vision tower is neither counted nor timed"
    return msgspec.structs.replace(
        llama.read(text, name),
        model_type=str(config["model_type"]),
        notes=(note,) if "vision_config" in config else (),
    )
