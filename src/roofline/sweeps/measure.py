"""Measure one case where this process runs; every way it can end is a result."""

import gc

import msgspec

from roofline.core.machine import Machine
from roofline.core.run import Run
from roofline.core.units import show
from roofline.errors import RooflineError, UsageError
from roofline.sweeps.case import Case, Result, Where, encode, result_of
from roofline.sweeps.experiments import experiment

# Building a case and running it takes a little more than its tensors.
_HEADROOM = 0.9


def measure_case(case: Case, where: Where) -> Result:
    """Count, time and judge one case.

    Returns:
        Its result: "ok" with a Run, "out_of_memory", or "failed" with the reason.

    Raises:
        UsageError: The request itself is wrong, and every further case would fail alike.
    """
    from roofline.clock.environment import environment
    from roofline.pipeline import measure_target, own_machine

    machine = where.machine or own_machine(where.device, _silent)
    described = environment(where.device)

    def ended(outcome: str, why: str) -> Result:
        return Result(
            key=case.key,
            case=case,
            outcome=outcome,  # type: ignore[arg-type]
            why=why,
            machine=machine.key,
            environment=described,
        )

    too_large = _too_large(case, where.device)
    if too_large:
        return ended("out_of_memory", too_large)
    try:
        target, options = experiment(case.sweep).program(case)
        run = measure_target(target, options, lambda: machine, seconds=where.seconds, origin=where.origin)
    except UsageError:
        raise
    except RooflineError as error:
        return ended("out_of_memory" if "ran out of memory" in error.message else "failed", error.message)
    except MemoryError as error:
        return ended("out_of_memory", str(error) or "out of memory")
    finally:
        _free(where.device)
    return result_of(case, _labelled(case, run))


def measure_encoded(case: bytes, where: bytes) -> bytes:
    """`measure_case` between processes: JSON in, one line of a file of results out."""
    return encode(measure_case(msgspec.json.decode(case, type=Case), msgspec.json.decode(where, type=Where)))


def count_case(case: Case, machine: Machine, where: Where) -> Run:
    """Judge a case by a machine without running it: from its closed form, else counted on fake tensors.

    Raises:
        UsageError: It has no closed form, and torch or its model is missing.
    """
    found: Run | None = experiment(case.sweep).predict(case, machine, where.origin)
    if found is not None:
        return _labelled(case, found)
    from roofline.pipeline import count_target
    from roofline.targets.packages import need

    need("torch", "torch")
    target, options = experiment(case.sweep).program(case)
    return _labelled(case, count_target(target, options, machine, origin=where.origin))


def _labelled(case: Case, run: Run) -> Run:
    """Say in the Run which case of which sweep it is."""
    sweep = {"sweep": case.sweep, "series": case.series, "size": case.size, "case": case.key}
    return msgspec.structs.replace(run, workload={**run.workload, **sweep})


def _too_large(case: Case, device: str) -> str | None:
    """Why a case can't fit, before it is tried: on a CPU the system kills what takes too much."""
    from roofline.clock.memory import available_bytes

    needed: float = experiment(case.sweep).memory_bytes(case)
    available = available_bytes(device)
    if needed <= _HEADROOM * available:
        return None
    return (
        f"it needs about {show(needed, 'B', capacity=True)} and {show(available, 'B', capacity=True)} "
        f"are available on {device}"
    )


def _free(device: str) -> None:
    """Give memory back before the next case, also what an exception's frames kept alive."""
    import torch

    gc.collect()
    backend = getattr(torch, torch.device(device).type, None)
    if backend is not None and hasattr(backend, "empty_cache"):
        backend.empty_cache()


def _silent(line: str) -> None:
    """Say nothing."""
