"""`roofline sweep`: how throughput and bound move with batch, tokens and shape."""

from pathlib import Path
from typing import Any

import click

from roofline.cli.common import ORIGINS, Peak, Quantity, options
from roofline.errors import UsageError


class Sizes(click.ParamType):  # type: ignore[type-arg]
    """Whole numbers above 0, separated by commas."""

    name = "N,N,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Read the numbers."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(part) for part in str(value).split(",") if part.strip())
        except ValueError:
            numbers = ()
        if not numbers or min(numbers) < 1:
            self.fail(f'"{value}" is no list of whole numbers above 0, such as 1,8,64', param, ctx)
        return tuple(dict.fromkeys(numbers))


class Words(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas."""

    name = "NAME,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Read the names."""
        if isinstance(value, tuple):
            return value
        return tuple(dict.fromkeys(part.strip() for part in str(value).split(",") if part.strip()))


_where = options(
    click.option("--device", default="cpu", show_default=True, help="Where it runs: cpu, cuda, cuda:1, mps."),
    click.option(
        "--predict", metavar="MACHINE", help="Run nothing: draw the roof of any machine (roofline devices)."
    ),
    click.option("--machine", metavar="NAME|FILE", help="Whose roof.  [default: the device's own]"),
    click.option("--peak-flops", type=Peak(), help='Override a matrix peak: "bf16=989 TFLOP/s".'),
    click.option("--peak-bandwidth", type=Quantity("B/s"), help='Override the memory bandwidth: "3.35 TB/s".'),
    click.option(
        "--precision",
        type=click.Choice(["bf16", "fp16", "fp32"]),
        help="Of weights and data.  [default: bf16 or fp16 where it is faster than fp32]",
    ),
    click.option("--bytes", "origin", type=click.Choice(ORIGINS), help="Which count of bytes to judge by."),
)
_how = options(
    click.option(
        "--scale",
        type=click.Choice(["small", "article"]),
        help="Sizes for two CPU cores, or the article's.  [default: small on a CPU]",
    ),
    click.option(
        "--seconds",
        type=click.FloatRange(min=0.01),
        default=1.0,
        show_default=True,
        help="Time spent timing each case.",
    ),
    click.option("--dry-run", is_flag=True, help="Print the cases with predicted times, and run none."),
    click.option("--runner", type=click.Choice(["local", "ray", "modal"]), default="local", show_default=True),
    click.option("--address", help="Of the Ray cluster: auto, ray://host:10001.  [default: one on this machine]"),
    click.option("--gpu", help="Modal's GPU, such as A10G or H100.  [default: A10G]"),
)
_results = options(
    click.option(
        "--results",
        type=click.Path(path_type=Path, dir_okay=False),
        help="JSONL file; the same command resumes it.  [default: roofline-sweep-NAME.jsonl]",
    ),
    click.option("--retry", is_flag=True, help="Run cases again that failed or ran out of memory."),
    click.option("--json", "as_json", is_flag=True, help="Print the sweep as one JSON document."),
    click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write .png, .svg, .md or .json; several times if wanted.",
    ),
)
_common = options(_where, _how, _results)
_mlp = options(
    click.option(
        "--params", type=click.FloatRange(min=1024), help="Parameters of the MLP.  [default: 1.44e9, CPU 2.56e8]"
    ),
    click.option("--hidden", type=click.IntRange(min=1), help="Its width.  [default: from --params]"),
    click.option("--blocks", type=click.IntRange(min=1), help="Its depth.  [default: from --params]"),
)


class Sweeps(click.Group):
    """The experiments; for a name that is none of them, the near ones."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the experiment."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.commands, 2)
            hint = f"did you mean: {', '.join(near)}?" if near else f"sweeps: {', '.join(self.commands)}"
            raise UsageError(f'there is no sweep "{args[0]}"', hint)
        return super().resolve_command(ctx, args)


@click.group(cls=Sweeps, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """How throughput and bound move with batch, tokens and shape: the article's experiments.

    Each case is appended to a JSONL file as it ends. The same command goes on where it was stopped.
    """
    if ctx.invoked_subcommand is None:
        # Click would raise its help as a usage error. Its convention otherwise: help on stderr, exit status 2.
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


@command.command()
@click.option("--ops", "only", type=Words(), help="Only these, such as add,gemm,attention_fused.  [default: all]")
@click.option("--sizes", type=Sizes(), help="Instead of each op's own sizes.")
@_common
def ops(**chosen: Any) -> None:
    """Time single ops: elementwise, norms, GEMM shapes, convolution, attention, AdamW."""
    _run("ops", chosen)


@command.command()
@click.option("--batches", "sizes", type=Sizes(), help="Instead of 1 … 512.")
@click.option("--model", default="mlp", show_default=True, help="mlp, or transformers:CONFIG with a KV cache.")
@click.option("--context", type=click.IntRange(min=1), default=1024, show_default=True, help="Tokens in the cache.")
@_mlp
@_common
def decode(**chosen: Any) -> None:
    """Decode one token per sequence: batch against throughput, latency, and the critical batch."""
    _run("decode", chosen)


@command.command()
@click.option("--tokens", "sizes", type=Sizes(), help="Tokens per step, instead of 1 … 4096.")
@_mlp
@_common
def train(**chosen: Any) -> None:
    """Forward and backward: tokens per step against throughput and the MFU plateau."""
    _run("train", chosen)


@command.command()
@click.option("--models", type=Words(), help="torchvision's names.  [default: resnet50,vit_b_16]")
@click.option("--modes", type=Words(), help="inference, train.  [default: both]")
@click.option("--batches", "sizes", type=Sizes(), help="Instead of 1 … 256.")
@click.option("--compile", "compiled", is_flag=True, help="Through torch.compile.")
@click.option("--channels-last", is_flag=True, help="Images and weights in channels-last layout.")
@_common
def vision(**chosen: Any) -> None:
    """Images: MFU and MBU against batch, intensity against the ridge point."""
    _run("vision", chosen)


def _run(name: Any, chosen: dict[str, Any]) -> None:
    from roofline.cli.sweeping import run

    run(name, chosen)
