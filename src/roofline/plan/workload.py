"""What is asked of the model, and over how many devices: phase, batch, lengths, precisions, parallelism. Checked."""

from typing import Literal, get_args

import msgspec

from roofline.core.precision import Precision
from roofline.errors import UsageError

Phase = Literal["decode", "prefill", "train"]
Recompute = Literal["none", "full"]
LatentMode = Literal["auto", "absorbed", "expanded"]
_ACTIVATION_BYTES = {Precision.BF16: 2, Precision.FP16: 2, Precision.FP32: 4, Precision.TF32: 4}
_LARGEST = 10**9


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One step.

    Attributes:
        phase: decode: every sequence gains `tokens`; prefill: a prompt is read; train: forward, backward, optimizer.
        batch: Sequences, over all replicas.
        context: Tokens in the cache of every sequence before the step (decode, or a prefill that continues).
        tokens: New tokens per sequence: the prompt's or the sample's length; in decode 1, or those verified at once.
        precision: Of activations, and of products unless the weights' format says otherwise.
        weights: Format of the weights; None: as the config says.
        kv: Format of the cache: bf16, fp16, fp32, fp8, int8 or int4.
        chunk: Tokens per pass of a chunked prefill; None: all at once.
        images: Images (or clips) per sequence that the tower reads.
        source: Tokens of the other sequence of an encoder–decoder model.
        recompute: Whether training recomputes every layer's forward pass.
        optimizer: Whether training includes AdamW's step.
        microbatches: Micro-batches per step of a pipeline or of gradient accumulation.
        latent: How latent attention runs: with the up-projections absorbed into queries and outputs, or with the
            latent vectors expanded to keys and values per head, those of the cache too; auto: absorbed in decode.
        dense: Count masked pairs of attention as executed, as kernels do that don't skip them.
        keep_scores: Whether backward reads scores that forward kept, instead of recomputing them.
        all_logits: Whether prefill computes the logits of every position, not of the last alone.
    """

    phase: Phase = "decode"
    batch: int = 1
    context: int = 1024
    tokens: int | None = None
    precision: Precision = Precision.BF16
    weights: str | None = None
    kv: str | None = None
    chunk: int | None = None
    images: int = 0
    source: int | None = None
    recompute: Recompute = "none"
    optimizer: bool = True
    microbatches: int | None = None
    latent: LatentMode = "auto"
    dense: bool = False
    keep_scores: bool = False
    all_logits: bool = False

    @property
    def new_tokens(self) -> int:
        """New tokens per sequence: 1 in decode unless more are verified at once; else 2048 unless given."""
        return self.tokens or (1 if self.phase == "decode" else 2048)

    @property
    def past(self) -> int:
        """Tokens in the cache before the step; training has none."""
        return 0 if self.phase == "train" else self.context

    @property
    def activation_bytes(self) -> int:
        """Bytes of one activation; narrow products still pass their activations on in 16 bits."""
        return _ACTIVATION_BYTES.get(self.precision, 2)

    def check(self) -> None:
        """Refuse sizes that make no sense.

        Raises:
            UsageError: One doesn't.
        """
        if self.phase not in get_args(Phase):
            raise UsageError(f'unknown phase "{self.phase}"', "choose decode, prefill or train")
        for name, value, least in (
            ("batch", self.batch, 1),
            ("context", self.context, 0),
            ("tokens", self.new_tokens, 1),
            ("chunk", self.chunk or 1, 1),
            ("images", self.images, 0),
            ("source", self.source or 1, 1),
            ("microbatches", self.microbatches or 1, 1),
        ):
            if not least <= value <= _LARGEST:
                raise UsageError(f"--{name} is {value}, expected {least} to {_LARGEST}", f"give a --{name} in range")


class Parallel(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is split. Ranks are numbered with tensor parallelism fastest, then context, data, pipeline.

    Attributes:
        tp: Tensor parallelism: heads and inner widths are split.
        pp: Pipeline: layers are split.
        dp: Data parallelism: replicas, each with its share of the batch.
        ep: Expert parallelism: whole experts are spread over so many ranks of tp · dp.
        cp: Context parallelism: the sequence is split.
        zero: ZeRO stage over dp: 1 optimizer state, 2 gradients too, 3 weights too (FSDP).
        node: Devices per node, which share NVLink.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    cp: int = 1
    zero: int = 0
    node: int = 8

    @property
    def devices(self) -> int:
        """Devices in all: tp · pp · dp · cp."""
        return self.tp * self.pp * self.dp * self.cp

    def check(self, batch: int) -> None:
        """Refuse splits that don't come out even.

        Raises:
            UsageError: One doesn't.
        """
        for name in ("tp", "pp", "dp", "ep", "cp", "node"):
            value = getattr(self, name)
            if not 1 <= value <= 2**20:
                raise UsageError(f"--{name} is {value}, expected a whole number from 1", f"give a --{name} in range")
        if self.zero not in (0, 1, 2, 3):
            raise UsageError(f"--zero is {self.zero}, expected 0, 1, 2 or 3", "3 is FSDP")
        if batch % self.dp:
            raise UsageError(
                f"a batch of {batch} does not divide over --dp {self.dp}", f"choose a --batch divisible by {self.dp}"
            )
        if self.ep > 1 and (self.tp * self.dp) % self.ep:
            raise UsageError(
                f"--ep {self.ep} does not divide --tp · --dp = {self.tp * self.dp}",
                "experts are spread over the ranks of tensor and data parallelism",
            )

    def spans_nodes(self, ranks: int, stride: int) -> bool:
        """Whether a group of `ranks`, `stride` apart, is larger than a node."""
        return ranks * stride > self.node
