"""The options of `roofline plan`: the step, how it is split, what is asked of it."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from roofline.cli.common import Amount, Quantity, options
from roofline.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
_LARGEST = 10**9
_PRECISIONS = ("bf16", "fp16", "fp32", "tf32", "fp8", "int8", "fp4")


def _whole(name: str, text: str, least: int = 1, default: int | None = None) -> Callable[[F], F]:
    return click.option(name, type=click.IntRange(least, _LARGEST), default=default, help=text)


step_options = options(
    click.option("--phase", type=click.Choice(["decode", "prefill", "train"]), default="decode", show_default=True),
    _whole("--batch", "Sequences, all replicas together.  [default: 1]"),
    _whole("--context", "Tokens in the cache before the step.  [default: 1024 in decode, else 0]", 0),
    _whole("--tokens", "New tokens per sequence.  [default: 1 in decode, else 2048]"),
    click.option("--precision", type=click.Choice(_PRECISIONS), help="Of products.  [default: the config's]"),
    click.option("--weights", metavar="FORMAT", help="bf16, fp8, int8, int4-g128, mxfp4, nvfp4, q4_k, q8_0 …"),
    click.option("--kv", metavar="FORMAT", help="Of the KV cache: bf16, fp8, int8 …"),
    _whole("--chunk", "Tokens per pass of a chunked prefill."),
    _whole("--images", "Images per sequence, for models with a vision tower.", 0),
    _whole("--source", "Tokens of the encoder's sequence, for encoder–decoder models."),
    click.option(
        "--recompute", type=click.Choice(["none", "full"]), default="none", help="Training recomputes layers."
    ),
    _whole("--microbatches", "Micro-batches per step."),
    click.option(
        "--latent", type=click.Choice(["auto", "absorbed", "expanded"]), default="auto", help="How MLA runs."
    ),
)
split_options = options(
    *(
        _whole(f"--{name}", text, default=1)
        for name, text in {
            "tp": "Tensor parallelism.",
            "pp": "Pipeline stages.",
            "dp": "Replicas.",
            "ep": "Expert parallelism, over tp · dp.",
            "cp": "Context parallelism.",
        }.items()
    ),
    click.option("--zero", type=click.IntRange(0, 3), default=0, help="ZeRO stage over dp; 3 is FSDP."),
    _whole("--node", "Devices per node, joined by NVLink.", default=8),
    click.option("--network", type=Quantity("B/s"), help='Between nodes, per device and direction: "50 GB/s".'),
    click.option("--nvlink", type=Quantity("B/s"), help="Override the link within a node."),
)
question_options = options(
    click.option("--draft", metavar="CONFIG|mtp", help="Speculative decoding: the model that proposes."),
    _whole("--draft-tokens", "Tokens proposed per step.", default=4),
    click.option("--acceptance", type=Amount(0, 1), default=0.7, help="Chance that one is accepted."),
    click.option("--sweep", "sweeps", multiple=True, metavar="NAME=FROM:TO", help="batch=1:512; again for a grid."),
    click.option("--itl", type=Quantity("s"), help='Largest batch within this time per token: "30 ms".'),
    click.option("--tokens-per-s", type=Quantity(""), help="A measured throughput, all devices: its MFU, HFU, MBU."),
    _whole("--num-devices", "Devices of that throughput.  [default: the plan's]"),
    click.option("--price-per-hour", type=Amount(min=0), help="Of one device: cost per million tokens."),
)


def check_questions(chosen: dict[str, Any]) -> None:
    """Refuse questions that the kind of plan has no answer for, rather than leave them unanswered.

    Raises:
        UsageError: There is one.
    """
    context = click.get_current_context()
    given = {name for name in chosen if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    needs = {"draft_tokens": "draft", "acceptance": "draft", "num_devices": "tokens_per_s", "like": "config"}
    for name, needed in needs.items():
        if name in given and needed not in given:
            raise UsageError(f"{_option(name)} needs {_option(needed)}", f"add {_option(needed)}, or leave it out")
    several = "--sweep" if chosen["sweeps"] else "several machines" if len(chosen["machines"]) > 1 else ""
    asked = ["tokens_per_s"] if several else []
    asked += ["draft", "price_per_hour"] if chosen["sweeps"] else ["itl"] if several else []
    for name in asked:
        if name in given:
            one = "leave --sweep out" if chosen["sweeps"] else "name one --machine"
            raise UsageError(f"{_option(name)} is a question of one plan, not of {several}", one)


def _option(name: str) -> str:
    return "CONFIG" if name == "config" else f"--{name.replace('_', '-')}"
