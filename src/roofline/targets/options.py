"""How to set a target up: the options that `measure` and `count` share."""

from typing import Any

import msgspec

from roofline.core.precision import Precision


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a program.

    Attributes:
        batch: Samples per step; None takes the target's default.
        tokens: Sequence length for models of text; None takes the target's default.
        train: Forward and backward instead of forward only.
        optimizer: Adds its step to training.
        precision: BF16 or FP16 by autocast; FP32; None is the program's own.
        compiled: Through torch.compile when timed; counting sees the eager program, and the compiled one's bytes.
        channels_last: Put convolution weights and images in channels-last layout.
        device: Where it runs: "cpu", "cuda", "cuda:1", "mps".
    """

    batch: int | None = None
    tokens: int | None = None
    train: bool = False
    optimizer: str | None = None
    precision: Precision | None = None
    compiled: bool = False
    channels_last: bool = False
    device: str = "cpu"

    def workload(self) -> dict[str, Any]:
        """The options as plain values for `Run.workload`, without those left at their default."""
        plain = msgspec.to_builtins(self)
        defaults = msgspec.to_builtins(Options())
        return {key: value for key, value in plain.items() if value != defaults[key]}
