"""Diffusion transformers of the FLUX kind."""

from roofline.errors import UsageError
from roofline.plan.architecture import Architecture, Entry, Layer, Stack
from roofline.plan.parts import DoubleStream, Matrix, SingleStream
from roofline.plan.readers.fields import MOST_LAYERS, Config, flag, ratio, size

_TIME = 256
_TEXT = 512


def flux(config: Config, name: str) -> Architecture:
    """FLUX.1: one pass is one denoising step; text encoders and the autoencoder of images are not part of it."""
    width, heads = size(config, "hidden_size"), size(config, "num_heads", "num_attention_heads")
    inner = int(width * ratio(config, "mlp_ratio", 4.0))
    if width % heads:
        raise UsageError(f"{heads} heads do not divide a hidden size of {width}", "check the config")
    depth = width // heads
    double = Layer((DoubleStream(heads, depth, inner, flag(config, "qkv_bias", True)),), 0, 0)
    single = Layer((SingleStream(heads, depth, inner),), 0, 0)
    layers = (double,) * size(config, "depth", "num_layers", most=MOST_LAYERS)
    layers += (single,) * size(config, "depth_single_blocks", "num_single_layers", most=MOST_LAYERS)
    channels = size(config, "in_channels")
    embedders = [("time_in", _TIME), ("vector_in", size(config, "vec_in_dim", "pooled_projection_dim"))]
    embedders += [("guidance_in", _TIME)] if flag(config, "guidance_embed") else []
    entries = [
        Entry(Matrix("img_in", channels, width, width), "token"),
        Entry(Matrix("txt_in", size(config, "context_in_dim", "joint_attention_dim"), width, width), "source"),
    ]
    for what, inputs in embedders:
        entries.append(Entry(Matrix(f"{what}.in_layer", inputs, width, width), "sequence"))
        entries.append(Entry(Matrix(f"{what}.out_layer", width, width, width), "sequence"))
    entries.append(Entry(Matrix("final_layer.adaLN", width, 2 * width, 2 * width), "sequence"))
    return Architecture(
        name=name,
        model_type="flux",
        stack=Stack("blocks", width, layers),
        vocab=0,
        entries=tuple(entries),
        head=(Matrix("final_layer.linear", width, channels, channels),),
        generates=False,
        source_tokens=_TEXT,
        notes=("one denoising step; text encoders and the image autoencoder are left out",),
    )
