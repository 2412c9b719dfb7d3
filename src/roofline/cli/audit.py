"""`roofline audit`: does a quoted MFU add up?"""

import json
from typing import Any

import click
import msgspec

from roofline.cli.common import Quantity, options
from roofline.cli.stdout import columns, emit
from roofline.errors import UsageError

_MISSED = 3

_model = options(
    click.argument("model", required=False),
    click.option(
        "--params", metavar="N", type=Quantity(""), help="Parameters, where no config describes the model: 70e9."
    ),
    click.option(
        "--active-params", metavar="N", type=Quantity(""), help="Of these, what one token uses (mixture of experts)."
    ),
    click.option("--embedding-params", metavar="N", type=Quantity(""), help="Of these, the input table."),
    click.option("--tied", is_flag=True, help="The output head is the input table."),
    click.option("--layers", type=click.IntRange(min=1), help="Layers with attention."),
    click.option("--hidden", type=click.IntRange(min=1), help="Query heads × their width."),
    click.option(
        "--lora-params", metavar="N", type=Quantity(""), help="Parameters of LoRA adapters; the rest is frozen."
    ),
    click.option("--sequence", type=click.IntRange(min=1), help="Tokens per sequence."),
    click.option("--documents", help="Lengths of the documents packed into a sequence: 512,512,1024,2048."),
)
_run = options(
    click.option("--machine", required=True, metavar="NAME|FILE", help="One device."),
    click.option("--devices", type=click.IntRange(min=1), default=1, show_default=True, help="How many shared it."),
    click.option("--precision", default="bf16", show_default=True, help="Of the matrix products."),
    click.option("--tokens-per-s", help="Throughput of all devices together."),
    click.option("--tokens-per-s-per-device", help="…or of one device."),
    click.option("--step-time", help='…or the time of a step, "1.2 s", with --tokens-per-step.'),
    click.option("--tokens-per-step", help="Tokens of all ranks and micro-steps in that time."),
    click.option("--inference", is_flag=True, help="Tokens go forward only."),
    click.option("--recompute", type=click.Choice(["none", "selective", "layers", "full"]), help="If known."),
    click.option("--accumulation", type=click.IntRange(min=1), default=1, help="Micro-steps per step."),
    click.option("--tp", type=click.IntRange(min=1), default=1, help="Ranks of tensor parallelism."),
    click.option("--pp", type=click.IntRange(min=1), default=1, help="Stages of the pipeline."),
    click.option("--sp", type=click.IntRange(min=1), default=1, help="Ranks of sequence or context parallelism."),
)
_decoding = options(
    click.option("--weights", default="bf16", show_default=True, help="Format of the weights, for bytes: int4-g32."),
    click.option("--context", type=click.FloatRange(min=0), default=0, help="Mean tokens in the KV cache."),
    click.option("--batch", type=click.IntRange(min=1), default=1, help="Sequences decoded together."),
    click.option("--gemm", help="A matrix product in place of a model: M,N,K."),
    click.option("--gemm-bytes", default="2,2", show_default=True, help="Its bytes per element, in and out."),
)
_claims = options(
    click.option("--mfu", help="Claimed: 45%."),
    click.option("--hfu", help="Claimed."),
    click.option("--flops-per-s", help='Claimed, per device: "420 TFLOP/s".'),
    click.option("--mbu", help="Claimed."),
    click.option("--bandwidth", help='Claimed, per device: "1397 GB/s".'),
    click.option("--speedup", help="Claimed, over the machine of --from-machine: 1.5x."),
    click.option("--from-machine", metavar="NAME|FILE", help="Where the program ran before."),
    click.option("--from-mfu", help="Its MFU there."),
    click.option("--from-devices", type=click.IntRange(min=1), help="Devices there.  [default: as many]"),
    click.option("--from-precision", help="Precision there.  [default: the same]"),
)


@click.command()
@_model
@_run
@_decoding
@_claims
@click.option("--tolerance", help="Accept this relative difference, 1%.  [default: the rounding of the figures]")
@click.option("--strict", is_flag=True, help="Exit with 3 when a figure does not add up.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(strict: bool, as_json: bool, **chosen: Any) -> int:
    """Check a quoted MFU, HFU, MBU, rate or speed-up: which convention and which peak give it, or that none does.

    MODEL: a name of the catalogue, a config.json or its folder. Figures are taken as they are written: 45% may be
    44.5 to 45.5 %, 45.0% only 44.95 to 45.05 %.

    \b
    roofline audit llama-3.1-8b --machine h100-sxm --devices 64 --sequence 8192 --tokens-per-s 640k --mfu 40%
    roofline audit --machine h200-sxm --flops-per-s "420 TFLOP/s" --mfu 84.9%
    roofline audit --machine h100-sxm --mfu 32% --speedup 1.5x --from-machine a100-sxm-80gb --from-mfu 45%
    """  # noqa: D301 — \b is click's mark for lines to keep
    from roofline.audit import audit

    claim = _claim(chosen)
    found = audit(claim)
    if as_json:
        emit((json.dumps(_plain(found), indent=2, ensure_ascii=False) + "\n").encode())
    else:
        from roofline.report.audit import text

        emit(text(claim, found, columns()) + "\n")
    return _MISSED if strict and not found.holds else 0


def _claim(chosen: dict[str, Any]) -> Any:
    """Gather the claim from the options."""
    from roofline import machines
    from roofline.audit import Claim, Layout, fraction, quantity
    from roofline.plan.conventions import Tokens

    def ratio(name: str) -> Any:
        return fraction(chosen[name]) if chosen[name] else None

    def number(name: str, unit: Any) -> Any:
        return quantity(chosen[name], unit) if chosen[name] else None

    documents = _numbers(chosen["documents"], "--documents") if chosen["documents"] else ()
    if documents and chosen["sequence"] not in (None, sum(documents)):
        raise UsageError(
            f"--documents hold {sum(documents)} tokens, not the {chosen['sequence']} of --sequence",
            "list padding as a document of its own, or leave --sequence out",
        )
    return Claim(
        machine=machines.resolve(chosen["machine"]),
        precision=_precision(chosen["precision"]),
        facts=_facts(chosen),
        tokens=Tokens(sequence=chosen["sequence"] or sum(documents), documents=documents),
        devices=chosen["devices"],
        tokens_per_s=_throughput(chosen),
        phase="forward" if chosen["inference"] else "train",
        recompute=chosen["recompute"],
        layout=Layout(
            accumulation=chosen["accumulation"], tensor=chosen["tp"], pipeline=chosen["pp"], sequence=chosen["sp"]
        ),
        decode=_decode(chosen),
        gemm=_gemm(chosen),
        mfu=ratio("mfu"),
        hfu=ratio("hfu"),
        flops_per_s=number("flops_per_s", "FLOP/s"),
        mbu=ratio("mbu"),
        bytes_per_s=number("bandwidth", "B/s"),
        speedup=number("speedup", ""),
        before=_before(chosen),
        tolerance=ratio("tolerance").value if chosen["tolerance"] else None,
    )


def _precision(name: str) -> Any:
    from roofline.core.precision import Precision

    try:
        return Precision(name)
    except ValueError:
        raise UsageError(f'"{name}" is no precision', f"known: {', '.join(Precision)}") from None


def _facts(chosen: dict[str, Any]) -> Any:
    from roofline.plan.conventions import AttentionLayers, ModelFacts, facts_of

    if chosen["model"] and chosen["params"]:
        raise UsageError("MODEL and --params both name a model", "give one of them")
    adapters = round(chosen["lora_params"] or 0)
    if chosen["model"]:
        from roofline.plan.config import load

        return msgspec.structs.replace(facts_of(load(chosen["model"])), adapters=adapters)
    if not chosen["params"]:
        return None
    if bool(chosen["layers"]) != bool(chosen["hidden"]):
        raise UsageError("attention needs --layers and --hidden", "give both, or neither to leave attention out")
    width, table = chosen["hidden"], round(chosen["embedding_params"] or 0)
    for option in ("active_params", "embedding_params"):
        if (chosen[option] or 0) > chosen["params"]:
            raise UsageError(f"--{option.replace('_', '-')} is more than all --params", "check the three")
    attention = (
        (AttentionLayers(layers=chosen["layers"], heads=1, qk_head_dim=width, v_head_dim=width),) if width else ()
    )
    missing = () if width else ("attention is left out of all conventions: give --layers and --hidden",)
    return ModelFacts(
        name=f"{chosen['params']:,.0f} parameters",
        parameters=round(chosen["params"]),
        active=round(chosen["active_params"]) if chosen["active_params"] else None,
        input_embedding=table,
        output_head=table,
        tied=chosen["tied"],
        attention=attention,
        adapters=adapters,
        notes=missing,
    )


def _throughput(chosen: dict[str, Any]) -> Any:
    """Tokens per second of all devices together, by whichever way it was given."""
    from roofline.audit import Quoted, quantity

    ways = [chosen["tokens_per_s"], chosen["tokens_per_s_per_device"], chosen["step_time"]]
    if sum(map(bool, ways)) > 1:
        raise UsageError(
            "--tokens-per-s, --tokens-per-s-per-device and --step-time say the same thing", "give one of them"
        )
    if bool(chosen["step_time"]) != bool(chosen["tokens_per_step"]):
        raise UsageError("--step-time and --tokens-per-step belong together", "give both")
    if chosen["tokens_per_s"]:
        return quantity(chosen["tokens_per_s"])
    if chosen["tokens_per_s_per_device"]:
        one, n = quantity(chosen["tokens_per_s_per_device"]), chosen["devices"]
        return Quoted(one.value * n, one.slack * n)
    if chosen["step_time"]:
        seconds, tokens = quantity(chosen["step_time"], "s"), quantity(chosen["tokens_per_step"])
        rate = tokens.value / seconds.value
        return Quoted(rate, rate * (seconds.relative_slack + tokens.relative_slack))
    return None


def _decode(chosen: dict[str, Any]) -> Any:
    from roofline.audit import Decode
    from roofline.plan.weights import find_format

    bits = find_format(chosen["weights"]).bits
    return Decode(bits_per_weight=bits, context=chosen["context"], batch=chosen["batch"])


def _gemm(chosen: dict[str, Any]) -> Any:
    from roofline.audit import Gemm

    if not chosen["gemm"]:
        return None
    sizes = _numbers(chosen["gemm"], "--gemm", 3)
    in_bytes, out_bytes = (float(b) for b in _numbers(chosen["gemm_bytes"], "--gemm-bytes", 2))
    return Gemm(m=sizes[0], n=sizes[1], k=sizes[2], in_bytes=in_bytes, out_bytes=out_bytes)


def _before(chosen: dict[str, Any]) -> Any:
    from roofline import machines
    from roofline.audit import Before, fraction

    if bool(chosen["from_machine"]) != bool(chosen["from_mfu"]):
        raise UsageError("--from-machine and --from-mfu belong together", "give both")
    if not chosen["from_machine"]:
        return None
    if not chosen["speedup"]:
        raise UsageError("--from-machine says what a --speedup is over", "give --speedup 1.5x")
    return Before(
        machine=machines.resolve(chosen["from_machine"]),
        mfu=fraction(chosen["from_mfu"]),
        devices=chosen["from_devices"],
        precision=_precision(chosen["from_precision"]) if chosen["from_precision"] else None,
    )


def _numbers(text: str, option: str, count: int | None = None) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1 or (count is not None and len(found) != count):
        expected = f"{count} whole numbers" if count else "whole numbers"
        raise UsageError(
            f'{option} "{text}" is not {expected} above 0, with commas between', f"see {option} in --help"
        )
    return found


def _plain(found: Any) -> dict[str, Any]:
    """The audit as JSON: figures in SI units, ratios as fractions, null where unknown."""
    plain: dict[str, Any] = msgspec.to_builtins(found)
    for finding in plain["findings"]:
        for part in (finding, *finding["explanations"]):
            part["arithmetic"] = [{"what": what, "how": how} for what, how in part["arithmetic"]]
    return {"holds": found.holds, **plain}
