"""The options of `roofline audit`, and figures as someone quoted them, each fault with the option's name."""

from typing import Any

import click

from roofline.cli.common import Amount, Peak, Quantity, options
from roofline.core.figures import absurd
from roofline.core.precision import Precision
from roofline.core.units import Unit
from roofline.errors import UsageError

_LARGEST = 10**12
_WHOLE = click.IntRange(1, _LARGEST)
_PRECISION = click.Choice([str(p) for p in Precision])


class Figure(click.ParamType):  # type: ignore[type-arg]
    """A number with a unit, as it was quoted: 640k, "420 TFLOP/s", 1.5x."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.name = unit or "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the number and how far its rounding reaches."""
        from roofline.audit import quantity

        try:
            found = quantity(value, self.unit) if isinstance(value, str) else value
        except UsageError as error:
            self.fail(f"{error.message}; {error.hint}", param, ctx)
        if absurd(found.value):
            self.fail(f'"{value}" is beyond any {self.unit or "number"} that there is', param, ctx)
        return found


class Ratio(click.ParamType):  # type: ignore[type-arg]
    """A ratio as it was quoted: 45%, 0.45."""

    name = "%"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the ratio and how far its rounding reaches."""
        from roofline.audit import fraction

        try:
            return fraction(value) if isinstance(value, str) else value
        except UsageError as error:
            self.fail(f"{error.message}; {error.hint}", param, ctx)


class Sizes(click.ParamType):  # type: ignore[type-arg]
    """Whole numbers above 0 with commas between, so many where that is given."""

    name = "N,N,…"

    def __init__(self, number: int | None = None) -> None:
        self.number = number

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Read the numbers."""
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(int(part) for part in value.split(","))
        except ValueError:
            found = ()
        if not found or not 1 <= min(found) <= max(found) <= _LARGEST or self.number not in (None, len(found)):
            expected = f"{self.number} whole numbers" if self.number else "whole numbers"
            self.fail(f'"{value[:40]}" is not {expected} from 1 to {_LARGEST:,}, with commas between', param, ctx)
        return found


class Weights(click.ParamType):  # type: ignore[type-arg]
    """A format of weights: bf16, int4-g32, q4_k."""

    name = "FORMAT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Find the format."""
        from roofline.plan.weights import find_format

        try:
            return find_format(value) if isinstance(value, str) else value
        except UsageError as error:
            self.fail(f"{error.message} ({error.hint})", param, ctx)


model_options = options(
    click.argument("model", required=False),
    click.option(
        "--params", metavar="N", type=Quantity(""), help="Parameters, where no config describes the model: 70e9."
    ),
    click.option(
        "--active-params", metavar="N", type=Quantity(""), help="Of these, what one token uses (mixture of experts)."
    ),
    click.option("--embedding-params", metavar="N", type=Quantity(""), help="Of these, the input table."),
    click.option("--tied", is_flag=True, help="The output head is the input table."),
    click.option("--layers", type=_WHOLE, help="Layers with attention."),
    click.option("--hidden", type=_WHOLE, help="Query heads × their width."),
    click.option(
        "--lora-params", metavar="N", type=Quantity(""), help="Parameters of LoRA adapters; the rest is frozen."
    ),
    click.option("--sequence", type=_WHOLE, help="Tokens per sequence."),
    click.option(
        "--documents", type=Sizes(), help="Lengths of the documents packed into a sequence: 512,512,1024,2048."
    ),
)
run_options = options(
    click.option("--machine", metavar="NAME|FILE", help="One device.  [required, or two ceilings]"),
    click.option("--peak-flops", type=Peak(), help='Override its matrix peak: "bf16=989 TFLOP/s".'),
    click.option("--peak-bandwidth", type=Quantity("B/s"), help='Override its memory bandwidth: "3.35 TB/s".'),
    click.option("--devices", type=_WHOLE, default=1, show_default=True, help="How many shared it."),
    click.option("--precision", type=_PRECISION, default="bf16", show_default=True, help="Of the matrix products."),
    click.option("--tokens-per-s", type=Figure(""), help="Throughput of all devices together."),
    click.option("--tokens-per-s-per-device", type=Figure(""), help="…or of one device."),
    click.option("--step-time", type=Figure("s"), help='…or the time of a step, "1.2 s", with --tokens-per-step.'),
    click.option("--tokens-per-step", type=Figure(""), help="Tokens of all ranks and micro-steps in that time."),
    click.option("--inference", is_flag=True, help="Tokens go forward only."),
    click.option("--recompute", type=click.Choice(["none", "selective", "layers", "full"]), help="If known."),
    click.option("--accumulation", type=_WHOLE, default=1, help="Micro-steps per step."),
    click.option("--tp", type=_WHOLE, default=1, help="Ranks of tensor parallelism."),
    click.option("--pp", type=_WHOLE, default=1, help="Stages of the pipeline."),
    click.option("--sp", type=_WHOLE, default=1, help="Ranks of sequence or context parallelism."),
)
decoding_options = options(
    click.option(
        "--weights",
        type=Weights(),
        default="bf16",
        show_default=True,
        help="Format of the weights, for bytes: int4-g32.",
    ),
    click.option("--context", type=Amount(min=0), default=0, help="Mean tokens in the KV cache."),
    click.option("--batch", type=_WHOLE, default=1, help="Sequences decoded together."),
    click.option("--gemm", type=Sizes(3), help="A matrix product in place of a model: M,N,K."),
    click.option(
        "--gemm-bytes", type=Sizes(2), default="2,2", show_default=True, help="Its bytes per element, in and out."
    ),
)
claim_options = options(
    click.option("--mfu", type=Ratio(), help="Claimed: 45%."),
    click.option("--hfu", type=Ratio(), help="Claimed."),
    click.option("--flops-per-s", type=Figure("FLOP/s"), help='Claimed, per device: "420 TFLOP/s".'),
    click.option("--mbu", type=Ratio(), help="Claimed."),
    click.option("--bandwidth", type=Figure("B/s"), help='Claimed, per device: "1397 GB/s".'),
    click.option("--speedup", type=Figure(""), help="Claimed, over the machine of --from-machine: 1.5x."),
    click.option("--from-machine", metavar="NAME|FILE", help="Where the program ran before."),
    click.option("--from-mfu", type=Ratio(), help="Its MFU there."),
    click.option("--from-devices", type=_WHOLE, help="Devices there.  [default: as many]"),
    click.option("--from-precision", type=_PRECISION, help="Precision there.  [default: the same]"),
)
