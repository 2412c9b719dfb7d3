"""`roofline plan`: how fast a language model can decode, prefill or train, on what, without running it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.common import Peak, Quantity, output_options
from roofline.cli.plan_options import check_questions, question_options, split_options, step_options
from roofline.cli.stdout import columns, emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofline.core.machine import Machine
    from roofline.plan.planner import Plan

# Narrow precisions are those of weights and products; activations between ops stay in BF16.
_NARROW = {"fp8": "fp8", "int8": "int8", "fp4": "nvfp4"}


@click.command()
@click.argument("config", required=False)
@click.option("--params", type=float, help="In place of CONFIG: a size alone, such as 70e9.")
@click.option("--like", metavar="FAMILY", help="Read an unknown model_type as this family, an approximation.")
@step_options
@split_options
@question_options
@click.option("--machine", "machines", multiple=True, metavar="NAME|FILE", help="Whose roof; again to compare.")
@click.option("--peak-flops", type=Peak(), help='Override a matrix peak: "bf16=989 TFLOP/s".')
@click.option("--peak-bandwidth", type=Quantity("B/s"), help='Override the memory bandwidth: "3.35 TB/s".')
@output_options
def command(outputs: tuple[Path, ...], as_json: bool, **chosen: Any) -> int:
    """Plan a step of a model: the least time it can take, what to expect, and which ceiling binds each op.

    CONFIG: a config.json, its folder, a name of the catalogue (llama-3.1-8b), or a hub id. No weights are needed.
    """
    from roofline.cli.common import check_outputs

    check_outputs(outputs, chosen["config"], *chosen["machines"])
    check_questions(chosen)
    if chosen["sweeps"]:
        return _sweep(chosen, as_json, outputs)
    plans = _plans(chosen)
    if len(plans) > 1:
        return _several(plans, chosen, as_json, outputs)
    return _one(plans[0], chosen, as_json, outputs)


def _one(planned: "Plan", chosen: dict[str, Any], as_json: bool, outputs: tuple[Path, ...]) -> int:
    from roofline.plan.planner import run_of
    from roofline.plan.questions import under_slo
    from roofline.plan.screen import Asked, lines

    run = run_of(planned)
    score = _score(planned, chosen)
    slo = under_slo(planned, chosen["itl"]) if chosen["itl"] else None
    if as_json or outputs:
        from roofline.cli.common import say
        from roofline.plan.document import with_answers

        run = with_answers(run, planned, slo, chosen["price_per_hour"], score)
        for output in outputs:
            say(f"wrote {run.report(output)}")
    if as_json:
        _print_json(run.to_json())
    else:
        shown = lines(planned, run, Asked(slo=slo, price_per_hour=chosen["price_per_hour"]), columns())
        if score is not None:
            from roofline.plan.measured import rows

            shown += ["", *rows(score, columns())]
        _print(shown)
    return 3 if slo is not None and not slo.batch else 0


def _score(planned: "Plan", chosen: dict[str, Any]) -> Any:
    """The score of a measured throughput; None where none was given."""
    if chosen["tokens_per_s"] is None:
        return None
    from roofline.plan.measured import scored

    return scored(planned, chosen["tokens_per_s"], chosen["num_devices"])


def _several(plans: "list[Plan]", chosen: dict[str, Any], as_json: bool, outputs: tuple[Path, ...]) -> int:
    from roofline.plan.compare import side_by_side
    from roofline.plan.document import together, with_answers
    from roofline.plan.planner import run_of

    if as_json or outputs:
        runs = [with_answers(run_of(p), p, None, chosen["price_per_hour"]) for p in plans]
        _write_json(together(runs), outputs)
        if as_json:
            _print_json(together(runs))
            return 0
    _print(side_by_side(plans, chosen["price_per_hour"], columns()))
    return 0


def _sweep(chosen: dict[str, Any], as_json: bool, outputs: tuple[Path, ...]) -> int:
    import msgspec

    from roofline.errors import UsageError
    from roofline.plan.compare import sweep_table
    from roofline.plan.document import sweep_document
    from roofline.plan.sweep import grid, keeps, read_sweep
    from roofline.plan.unused import refuse_unused

    architecture, workload, parallel = _asked(chosen)
    sweeps = [read_sweep(text) for text in chosen["sweeps"]]
    if chosen["itl"] and workload.phase != "decode":
        raise UsageError("--itl is a limit of time per token", "leave --phase at decode")
    load, split = (msgspec.structs.replace(p, **_largest(p, sweeps)) for p in (workload, parallel))
    refuse_unused(architecture, load, split)
    points = list(grid(architecture, _machines(chosen), sweeps, workload, parallel))
    _write_json(sweep_document(points), outputs)
    if as_json:
        _print_json(sweep_document(points))
    else:
        _print(sweep_table(points, chosen["itl"], columns()))
    return 3 if chosen["itl"] and not any(keeps(p, chosen["itl"]) for p in points) else 0


def _largest(part: Any, sweeps: "Sequence[tuple[str, Sequence[int]]]") -> dict[str, int]:
    """The largest value of every field that is varied."""
    return {name: max(values) for name, values in sweeps if name in part.__struct_fields__}


def _plans(chosen: dict[str, Any]) -> "list[Plan]":
    from roofline.plan.planner import plan
    from roofline.plan.unused import refuse_unused

    architecture, workload, parallel = _asked(chosen)
    refuse_unused(architecture, workload, parallel)
    draft = _draft(chosen)
    return [plan(architecture, machine, workload, parallel, draft) for machine in _machines(chosen)]


def _asked(chosen: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The model, the workload and the split of a command line."""
    from roofline.core.precision import Precision
    from roofline.errors import UsageError
    from roofline.plan.config import load, napkin
    from roofline.plan.workload import Parallel, Workload

    if (chosen["config"] is None) == (chosen["params"] is None):
        raise UsageError("give a CONFIG, or --params in its place", "for example: roofline plan llama-3.1-8b")
    named = chosen["config"] is not None
    architecture = load(chosen["config"], like=chosen["like"]) if named else napkin(chosen["params"])
    precision = chosen["precision"]
    own = {"float16": "fp16"}.get(architecture.dtype, "bf16")
    context = chosen["context"]
    if context is None:
        context = 1024 if chosen["phase"] == "decode" and named else 0
    workload = Workload(
        phase=chosen["phase"],
        batch=chosen["batch"] or 1,
        context=context,
        tokens=chosen["tokens"],
        precision=Precision(own if precision is None or precision in _NARROW else precision),
        weights=chosen["weights"] or _NARROW.get(precision or ""),
        kv=chosen["kv"],
        chunk=chosen["chunk"],
        images=chosen["images"] or 0,
        source=chosen["source"],
        recompute=chosen["recompute"],
        microbatches=chosen["microbatches"],
        latent=chosen["latent"],
    )
    return architecture, workload, Parallel(**{k: chosen[k] for k in ("tp", "pp", "dp", "ep", "cp", "zero", "node")})


def _draft(chosen: dict[str, Any]) -> Any:
    if chosen["draft"] is None:
        return None
    from roofline.plan.config import load
    from roofline.plan.speculate import Draft

    model = None if chosen["draft"] == "mtp" else load(chosen["draft"])
    return Draft(model=model, tokens=chosen["draft_tokens"], acceptance=chosen["acceptance"])


def _machines(chosen: dict[str, Any]) -> "list[Machine]":
    """The machines named, or the GPU that the driver shows; with the user's overrides."""
    import msgspec

    from roofline import machines
    from roofline.core.machine import Ceiling
    from roofline.core.precision import Precision

    found: list[Machine | None] = [machines.resolve(name) for name in chosen["machines"]]
    found = found or [_own(chosen)]
    precision = Precision(chosen["precision"]) if chosen["precision"] else Precision.BF16
    stated, peak = chosen["peak_flops"] or (None, None)
    made = []
    for machine in found:
        changed = machines.override(machine, peak, chosen["peak_bandwidth"], stated or precision)
        links: dict[Any, Ceiling] = {
            level: Ceiling(chosen[level], "given", f"--{level}") for level in ("network", "nvlink") if chosen[level]
        }
        made.append(msgspec.structs.replace(changed, bandwidth={**changed.bandwidth, **links}))
    return made


def _own(chosen: dict[str, Any]) -> "Machine | None":
    """This computer's first GPU by its driver, without torch; None where two ceilings are given in its place.

    Raises:
        MachineError: There is none.
    """
    from roofline.errors import MachineError
    from roofline.machines import identify, smi

    if chosen["peak_flops"] and chosen["peak_bandwidth"]:
        return None
    seen = smi.read("0")
    if seen is None:
        raise MachineError("no GPU is visible here to plan for", "name one or more: --machine h100-sxm")
    return identify(seen.name, memory_bytes=seen.memory_bytes, compute=seen.compute)


def _write_json(document: bytes, outputs: tuple[Path, ...]) -> None:
    """Write several Runs or a sweep, for which JSON is the only format."""
    from roofline.cli.common import say
    from roofline.core.run import write_whole
    from roofline.errors import UsageError

    for output in outputs:
        if output.suffix.lower() != ".json":
            raise UsageError(
                f"can't write {output}: several plans go into a .json", "name one --machine, or -o plans.json"
            )
    for output in outputs:
        say(f"wrote {write_whole(output, document)}")


def _print(lines: list[str]) -> None:
    emit("\n".join(lines) + "\n")


def _print_json(document: bytes) -> None:
    emit(document.rstrip() + b"\n")
