"""`roofline audit`: does a quoted MFU add up?"""

import json
from typing import Any

import click
import msgspec

from roofline.cli.audit_options import Ratio, claim_options, decoding_options, model_options, run_options
from roofline.cli.common import chosen_machine
from roofline.cli.stdout import columns, emit
from roofline.core.precision import Precision
from roofline.errors import UsageError

_MISSED = 3


@click.command()
@model_options
@run_options
@decoding_options
@claim_options
@click.option(
    "--tolerance", type=Ratio(), help="Accept this relative difference, 1%.  [default: the rounding of the figures]"
)
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
    from roofline.audit import Claim, Layout
    from roofline.plan.conventions import Tokens

    documents = chosen["documents"] or ()
    if documents and chosen["sequence"] not in (None, sum(documents)):
        raise UsageError(
            f"--documents hold {sum(documents)} tokens, not the {chosen['sequence']} of --sequence",
            "list padding as a document of its own, or leave --sequence out",
        )
    return Claim(
        machine=chosen_machine(chosen, _no_machine),
        precision=Precision(chosen["precision"]),
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
        mfu=chosen["mfu"],
        hfu=chosen["hfu"],
        flops_per_s=chosen["flops_per_s"],
        mbu=chosen["mbu"],
        bytes_per_s=chosen["bandwidth"],
        speedup=chosen["speedup"],
        before=_before(chosen),
        tolerance=chosen["tolerance"].value if chosen["tolerance"] else None,
    )


def _no_machine() -> Any:
    raise UsageError(
        "--machine is missing: a ratio is of some machine's peak",
        'add --machine h100-sxm, or both --peak-flops "bf16=989 TFLOP/s" and --peak-bandwidth "3.35 TB/s"',
    )


def _facts(chosen: dict[str, Any]) -> Any:
    from roofline.plan.conventions import AttentionLayers, ModelFacts, facts_of

    named = chosen["model"] is not None
    if named and chosen["params"]:
        raise UsageError("MODEL and --params both name a model", "give one of them")
    for option in ("active_params", "embedding_params", "tied", "layers", "hidden"):
        if chosen[option] and not chosen["params"]:
            raise UsageError(f"--{option.replace('_', '-')} describes --params", "add --params 70e9, or leave it out")
    if chosen["lora_params"] and not named and not chosen["params"]:
        raise UsageError("--lora-params are adapters of a model", "add MODEL or --params")
    adapters = round(chosen["lora_params"] or 0)
    if named:
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
    from roofline.audit import Quoted

    ways = [chosen["tokens_per_s"], chosen["tokens_per_s_per_device"], chosen["step_time"]]
    if sum(map(bool, ways)) > 1:
        raise UsageError(
            "--tokens-per-s, --tokens-per-s-per-device and --step-time say the same thing", "give one of them"
        )
    if bool(chosen["step_time"]) != bool(chosen["tokens_per_step"]):
        raise UsageError("--step-time and --tokens-per-step belong together", "give both")
    if chosen["tokens_per_s"]:
        return chosen["tokens_per_s"]
    if chosen["tokens_per_s_per_device"]:
        one, n = chosen["tokens_per_s_per_device"], chosen["devices"]
        return Quoted(one.value * n, one.slack * n)
    if chosen["step_time"]:
        seconds, tokens = chosen["step_time"], chosen["tokens_per_step"]
        rate = tokens.value / seconds.value
        return Quoted(rate, rate * (seconds.relative_slack + tokens.relative_slack))
    return None


def _decode(chosen: dict[str, Any]) -> Any:
    from roofline.audit import Decode

    return Decode(bits_per_weight=chosen["weights"].bits, context=chosen["context"], batch=chosen["batch"])


def _gemm(chosen: dict[str, Any]) -> Any:
    from roofline.audit import Gemm

    if not chosen["gemm"]:
        return None
    m, n, k = chosen["gemm"]
    in_bytes, out_bytes = (float(b) for b in chosen["gemm_bytes"])
    return Gemm(m=m, n=n, k=k, in_bytes=in_bytes, out_bytes=out_bytes)


def _before(chosen: dict[str, Any]) -> Any:
    from roofline import machines
    from roofline.audit import Before

    if bool(chosen["from_machine"]) != bool(chosen["from_mfu"]):
        raise UsageError("--from-machine and --from-mfu belong together", "give both")
    if not chosen["from_machine"]:
        return None
    if not chosen["speedup"]:
        raise UsageError("--from-machine says what a --speedup is over", "give --speedup 1.5x")
    return Before(
        machine=machines.resolve(chosen["from_machine"]),
        mfu=chosen["from_mfu"],
        devices=chosen["from_devices"],
        precision=Precision(chosen["from_precision"]) if chosen["from_precision"] else None,
    )


def _plain(found: Any) -> dict[str, Any]:
    """The audit as JSON: figures in SI units, ratios as fractions, null where unknown."""
    plain: dict[str, Any] = msgspec.to_builtins(found)
    for finding in plain["findings"]:
        for part in (finding, *finding["explanations"]):
            part["arithmetic"] = [{"what": what, "how": how} for what, how in part["arithmetic"]]
    return {"holds": found.holds, **plain}
