"""What `roofline sweep` does with its options: choose cases, run or predict them, show them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from roofline.cli.common import say
from roofline.cli.sweep_output import Swept, check_outputs, deliver
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.run import BytesOrigin
from roofline.errors import RooflineError, UsageError
from roofline.sweeps.case import Case, Result, SweepName, Where, result_of
from roofline.sweeps.drive import Runner
from roofline.sweeps.experiments import experiment
from roofline.sweeps.settings import ARTICLE_PARAMS, CPU_PARAMS, Settings

_INTERRUPTED = 130
# Closed forms are per kernel, as `operator` bytes are; the article counts the bytes of vision models by leaf modules.
_ORIGINS: dict[SweepName, BytesOrigin] = {"ops": "operator", "vision": "module"}


def run(name: SweepName, chosen: dict[str, Any], runner: Runner | None = None) -> list[Result]:
    """Run one sweep as the command line asks for it.

    Args:
        name: Which.
        chosen: The options by name, as `roofline sweep` has them.
        runner: Used instead of the one that the options name.

    Returns:
        The results shown.
    """
    outputs = tuple(dict.fromkeys(chosen.get("outputs") or ()))
    check_outputs(outputs)
    predicting = chosen.get("predict")
    if predicting and chosen.get("machine"):
        raise UsageError("--predict and --machine name two machines", "leave one of them out")
    machine = _machine(name, chosen, runner)
    settings = _settings(chosen, machine)
    cases = experiment(name).cases(settings)
    where = Where(
        device=settings.device or "cpu",
        machine=machine,
        seconds=chosen.get("seconds") or 1.0,
        origin=chosen.get("origin") or _ORIGINS.get(name),
    )
    if chosen.get("dry_run"):
        from roofline.cli.sweep_plan import show_plan

        show_plan(name, cases, where, as_json=bool(chosen.get("as_json")), remote=_is_remote(chosen, runner))
        return []
    warnings: list[str] = []
    results = (
        _predicted(cases, machine, where, chosen.get("results"))
        if predicting and machine
        else _measured(name, cases, where, chosen, runner, warnings)
    )
    swept = Swept(name, cases, results, machine or _machine_of(results), warnings)
    deliver(swept, outputs, as_json=bool(chosen.get("as_json")))
    return results


def _machine(name: SweepName, chosen: dict[str, Any], runner: Runner | None) -> Machine | None:
    """The machine to judge by; None where each worker is to find its own."""
    from roofline.cli.common import chosen_machine

    if chosen.get("predict"):
        return chosen_machine({**chosen, "machine": chosen["predict"]}, _no_default)
    remote = _is_remote(chosen, runner)
    if remote and not chosen.get("machine"):
        if chosen.get("peak_flops") or chosen.get("peak_bandwidth"):
            raise UsageError("--peak-flops and --peak-bandwidth need --machine here", "name the workers' machine")
        return None
    from roofline.pipeline import check_device, own_machine

    device = chosen.get("device") or "cpu"
    if not remote:
        check_device(device)
    if chosen.get("dry_run") and not chosen.get("machine"):
        return _kept_machine(chosen, device)
    return chosen_machine(chosen, lambda: _judged_by(name, chosen, device) or own_machine(device, say))


def _judged_by(name: SweepName, chosen: dict[str, Any], device: str) -> Machine | None:
    """The ceilings that the file's cases were judged by: a sweep that goes on keeps its roof."""
    from roofline import machines
    from roofline.sweeps.results import judged_by

    path = _path(name, chosen)
    found = judged_by(path, machines.detect(device).key)
    if found is not None:
        say(f"judged by the ceilings in {path}; by others: --machine")
    return found


def _path(name: SweepName, chosen: dict[str, Any]) -> Path:
    return chosen.get("results") or Path(f"roofline-sweep-{name}.jsonl")


def _is_remote(chosen: dict[str, Any], runner: Runner | None) -> bool:
    return runner is not None or chosen.get("runner", "local") != "local"


def _kept_machine(chosen: dict[str, Any], device: str) -> Machine | None:
    """What is known of the device without measuring it, with the user's overrides; None where that is too little."""
    from roofline.cli.common import chosen_machine
    from roofline.cli.sweep_plan import kept_machine

    kept = kept_machine(device)
    if kept is None and not (chosen.get("peak_flops") and chosen.get("peak_bandwidth")):
        return None
    return chosen_machine(chosen, lambda: kept)  # type: ignore[arg-type, return-value]


def _no_default() -> Machine:
    raise AssertionError("a prediction names its machine")


def _settings(chosen: dict[str, Any], machine: Machine | None) -> Settings:
    device = "" if chosen.get("predict") else chosen.get("device") or "cpu"
    scale = chosen.get("scale")
    small = scale == "small" if scale else device.startswith("cpu")
    named = {key: chosen[key] for key in ("sizes", "only", "models", "modes") if chosen.get(key)}
    return Settings(
        precision=_precision(chosen, machine, device),
        small=small,
        device=device,
        params=chosen.get("params") or (CPU_PARAMS if small else ARTICLE_PARAMS),
        hidden=chosen.get("hidden"),
        blocks=chosen.get("blocks"),
        model=chosen.get("model") or "mlp",
        context=chosen.get("context") or 1024,
        compiled=bool(chosen.get("compiled")),
        channels_last=bool(chosen.get("channels_last")),
        **named,
    )


def _precision(chosen: dict[str, Any], machine: Machine | None, device: str) -> Precision:
    from roofline.sweeps import precision

    if chosen.get("precision"):
        return Precision(chosen["precision"])
    if not device:
        assert machine is not None
        return precision.of_machine(machine)
    return precision.of_device(device)


def _predicted(cases: Sequence[Case], machine: Machine, where: Where, path: Path | None) -> list[Result]:
    from roofline.sweeps.measure import count_case
    from roofline.sweeps.results import ResultsFile

    results = [result_of(case, count_case(case, machine, where)) for case in cases]
    if path is not None:
        with ResultsFile(path) as file:
            for result in results:
                if file.find(result.case, machine.key) is None:
                    file.append(result)
    return results


def _measured(
    name: SweepName,
    cases: Sequence[Case],
    where: Where,
    chosen: dict[str, Any],
    runner: Runner | None,
    warnings: list[str],
) -> list[Result]:
    from roofline.cli.sweep_progress import watching
    from roofline.runners import find_runner
    from roofline.sweeps.drive import drive
    from roofline.sweeps.results import ResultsFile, forget

    path = _path(name, chosen)
    runs = runner or find_runner(
        chosen.get("runner") or "local", address=chosen.get("address"), gpu=chosen.get("gpu")
    )
    if chosen.get("retry"):
        forget(path, ("failed", "out_of_memory", "skipped"))
    with ResultsFile(path) as file:
        warnings += file.warnings
        for line in file.warnings:
            say(f"warning: {line}")
        key = where.machine.key if where.machine else None
        left = sum(file.find(case, key) is None for case in cases)
        say(f"{len(cases)} cases, {len(cases) - left} of them done already; results go to {path}")
        try:
            with watching(cases, where, left) as watch:
                results = drive(cases, where, runs, file, machine=key, watch=watch)
        except KeyboardInterrupt:
            done = sum(file.find(case, key) is not None for case in cases)
            raise RooflineError(
                f"interrupted; {done} of {len(cases)} cases are in {path}",
                "the same command goes on from there",
                _INTERRUPTED,
            ) from None
    return [_under_one_roof(result, where) for result in results]


def _under_one_roof(result: Result, where: Where) -> Result:
    """The result judged by the sweep's machine, if its own ceilings were others."""
    from roofline.analysis import judge

    run, machine = result.run, where.machine
    if run is None or machine is None or run.machine == machine:
        return result
    return msgspec.structs.replace(result, run=judge(run, machine, origin=where.origin))


def _machine_of(results: Sequence[Result]) -> Machine | None:
    """The machine of all results, where it is one."""
    found = {r.run.machine.key: r.run.machine for r in results if r.run and r.run.machine}
    return next(iter(found.values())) if len(found) == 1 else None
