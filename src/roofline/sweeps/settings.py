"""What a user can choose about a sweep; every default is the article's, or smaller on a CPU."""

import msgspec

from roofline.core.precision import Precision

# 600 GB/s / (2 · 1.44e9 B) = 208 token/s, the article's ceiling for its "1.4 B" on an A10.
ARTICLE_PARAMS = 1.44e9
# Its BF16 weights, 512 MB, are beyond the last-level cache of most CPUs.
CPU_PARAMS = 2.56e8


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Choices of a sweep.

    Attributes:
        precision: Of weights and activations; of autocast in the vision sweep.
        small: Sizes for two CPU cores instead of the article's.
        device: Where it is timed; "" for a prediction.
        sizes: Batches, tokens or sizes instead of the sweep's own.
        params: Parameters of the MLP stand-in.
        hidden: Its width; None: from `params`.
        blocks: Its depth; None: from `params`.
        model: "mlp", or transformers:CONFIG for decode.
        context: Tokens in the KV cache of each sequence.
        models: torchvision models of the vision sweep.
        modes: "inference", "train" or both.
        compiled: Through torch.compile.
        channels_last: Channels-last layout.
        only: Ops of the ops sweep; empty: all.
    """

    precision: Precision
    small: bool = False
    device: str = ""
    sizes: tuple[int, ...] = ()
    params: float = ARTICLE_PARAMS
    hidden: int | None = None
    blocks: int | None = None
    model: str = "mlp"
    context: int = 1024
    models: tuple[str, ...] = ("resnet50", "vit_b_16")
    modes: tuple[str, ...] = ("inference", "train")
    compiled: bool = False
    channels_last: bool = False
    only: tuple[str, ...] = ()
