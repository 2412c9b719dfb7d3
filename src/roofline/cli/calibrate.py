"""`roofline calibrate`: the sustained ceilings of this machine."""

import time
from collections.abc import Callable
from pathlib import Path
from textwrap import wrap

import click

from roofline.core.machine import Ceiling, Machine
from roofline.core.units import Unit, percent, show
from roofline.machines.calibration import Calibration, calibration

_SUFFIXES = (".json", ".png", ".svg")


@click.command()
@click.option("--device", default="cpu", show_default=True, help="What to measure: cpu, cuda, cuda:1, mps.")
@click.option(
    "--quick", "is_quick", is_flag=True, help="Matrix rates, memory, caches and launch cost only, in under 10 s."
)
@click.option("--json", "as_json", is_flag=True, help="Print the machine as one JSON document.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Write a machine file for --machine (.json) or the measured roofline (.png, .svg); several times if wanted.",
)
def command(device: str, is_quick: bool, as_json: bool, outputs: tuple[Path, ...]) -> None:
    """Measure matrix rates, memory and cache bandwidth, and the launch cost of an op.

    In under a minute: every precision, every memory level, a sweep of kernels from memory-bound to compute-bound,
    and the rates a second time, to see whether the machine is quiet enough to trust them.

    The result is kept in the user's cache folder, where `roofline measure` finds it, unless it is doubtful.
    """
    import msgspec

    from roofline import machines
    from roofline.cli.stdout import emit
    from roofline.errors import RooflineError
    from roofline.pipeline import check_device

    _check(outputs)
    check_device(device)
    begin = time.perf_counter()
    from roofline.clock.ceilings import full, quick, with_ceilings
    from roofline.clock.environment import busy_fraction, busy_sentence

    busy = busy_sentence(busy_fraction())
    identity = machines.detect(device)
    ceilings = (quick if is_quick else full)(device, identity, progress=_progress(begin))
    measured = calibration(
        with_ceilings(identity, ceilings),
        sweep=ceilings.sweep,
        sweep_precision=ceilings.sweep_precision,
        working_sets=ceilings.working_sets,
        launches_s=ceilings.launches_s,
        agreement=ceilings.agreement,
        seconds=time.perf_counter() - begin,
    )
    doubts = tuple(filter(None, [busy, _slower(identity, measured)]))
    measured = msgspec.structs.replace(measured, notes=(*measured.notes, *doubts))
    _keep(identity, measured, (*ceilings.doubts, *doubts))
    document = msgspec.json.format(msgspec.json.encode(measured), indent=2) + b"\n"
    failed: RooflineError | None = None
    for output in outputs:
        try:
            _write(measured, output, document)
        except RooflineError as error:
            failed = failed or error
    emit(document if as_json else text(identity, measured) + "\n")
    if failed is not None:
        raise failed


def text(identity: Machine, measured: Calibration) -> str:
    """What was measured, as a screen: the sheet of the machine, the sweep, the datasheet beside it."""
    from roofline.cli.devices import sheet

    lines = [sheet(measured)]
    lines += [f"launch     {show(s, 's')} {_WAYS[way]}" for way, s in measured.launches_s.items()]
    lines += _working_sets(measured)
    lines += _sweep(measured)
    lines += _against_datasheet(identity, measured)
    lines += _agreement(measured)
    return "\n".join([*lines, f"took       {show(measured.seconds, 's')}"])


_WAYS = {"round trip": "launched and waited for", "graph": "per kernel of a CUDA graph"}


def _check(outputs: tuple[Path, ...]) -> None:
    """Refuse an output that can't be written before the minute begins."""
    from roofline.cli.common import check_place
    from roofline.errors import UsageError

    for output in outputs:
        if output.suffix not in _SUFFIXES:
            raise UsageError(f"can't write a calibration to {output}", "give a .json, .png or .svg file")
        check_place(output)


def _progress(begin: float) -> Callable[[str], None]:
    from roofline.cli.common import say

    return lambda line: say(f"{time.perf_counter() - begin:4.0f} s  {line}")


def _slower(identity: Machine, measured: Calibration) -> str | None:
    """Say where the calibration that is kept was faster by more than a tenth, or knew more."""
    from roofline.clock.cache import apart, cache_file, kept_ceilings

    kept = kept_ceilings(identity)
    far = apart(kept, measured) if kept and not kept.doubts else {}
    if kept is None or not far or min(far.values()) > 1:
        return None
    told = ", ".join(f"no {name}" if ratio == 0 else f"{name} {percent(ratio)} of it" for name, ratio in far.items())
    return (
        f"unlike the calibration of {kept.read_on} ({told}): the machine is too noisy, or has changed; that one "
        f"stays, until you delete {cache_file(identity)}"
    )


def _keep(identity: Machine, measured: Calibration, doubts: tuple[str, ...]) -> None:
    """Keep the result for `roofline measure`, unless a later, quieter one should take its place."""
    from roofline.cli.common import say
    from roofline.clock.cache import better_of, keep, kept_ceilings
    from roofline.errors import RooflineError

    if doubts:
        for doubt in doubts:
            say(f"warning: {doubt}")
        say("not kept for roofline measure; stop other programs and run again: roofline calibrate")
        return
    if identity.matrix and identity.bandwidth:
        say("roofline measure judges this GPU by its datasheet; for these ceilings: -o x.json, then --machine x.json")
        return
    kept = kept_ceilings(identity)
    best = better_of(kept, measured) if kept and not kept.doubts else measured
    try:
        say(f"kept for roofline measure in {keep(best)}")
    except (OSError, RooflineError) as error:
        say(f"warning: the ceilings can't be kept for next time: {error}")


def _write(measured: Calibration, output: Path, document: bytes) -> None:
    from roofline.cli.common import say
    from roofline.core.run import write_whole

    if output.suffix == ".json":
        write_whole(output, document)
        say(f"wrote {output}; use it with --machine {output}")
        return
    from roofline.report.calibration import render

    write_whole(output, render(measured, "svg" if output.suffix == ".svg" else "png"))
    say(f"wrote {output}")


def _working_sets(measured: Calibration) -> list[str]:
    """What one op sustains by the size of its working set, from the first cache to beyond the last."""
    if not measured.working_sets:
        return []
    kinds = ("read", "write", "copy", "triad")
    lines = [f"{'sets':<10} {'working set':>12}" + "".join(f"{kind:>12}" for kind in kinds)]
    for row in measured.working_sets:
        rates = "".join(f"{show(row.streams[kind], 'B/s'):>12}" for kind in kinds)
        lines.append(f"{'':<10} {show(row.size_bytes, 'B', capacity=True):>12}{rates}")
    return lines


def _sweep(measured: Calibration) -> list[str]:
    """The measured roofline in words: each point, and its share of the roof."""
    if not measured.sweep:
        return []
    from roofline.core.precision import Precision
    from roofline.core.roof import attainable

    peak, bandwidth = measured.matrix_peak(Precision(measured.sweep_precision)).value, measured.dram.value
    lines: list[str] = []
    for point in measured.sweep:
        intensity = point.intensity_flops_per_byte
        share = point.flops_per_s / attainable(intensity, peak=peak, bandwidth=bandwidth)
        title = "" if lines else "sweep"
        lines.append(
            f"{title:<10} {show(intensity, 'FLOP/B'):>12}  {show(point.flops_per_s, 'FLOP/s'):>13}  "
            f"{percent(share):>7} of the {measured.sweep_precision.upper()} roof"
        )
    return lines


def _against_datasheet(identity: Machine, measured: Calibration) -> list[str]:
    """What was sustained as a share of what the vendor states, where it states anything."""
    rows: list[tuple[str, Ceiling, Ceiling | None, Unit]] = [
        (str(p), c, measured.matrix.get(p), "OP/s" if p.is_integer else "FLOP/s") for p, c in identity.matrix.items()
    ]
    rows += [(f"vector {p}", c, measured.vector.get(p), "FLOP/s") for p, c in identity.vector.items()]
    rows += [(level, c, measured.bandwidth.get(level), "B/s") for level, c in identity.bandwidth.items()]
    shares = [
        f"{name}: sustained {percent(found.value / stated.value)} of the datasheet's {show(stated.value, unit)}"
        for name, stated, found, unit in rows
        if found is not None and found.origin == "measured"
    ]
    return [f"{'' if i else 'datasheet':<10} {line}" for i, line in enumerate(shares)]


def _agreement(measured: Calibration) -> list[str]:
    """Whether two measurements of the main ceilings came out alike."""
    if not measured.agreement:
        return []
    from roofline.clock.ceilings import AGREEMENT, disagreements

    apart = max(1 - min(ratio, 1 / ratio) for ratio in measured.agreement.values())
    changes = ", ".join(f"{name} {percent(ratio)}" for name, ratio in measured.agreement.items())
    if disagreements(measured.agreement):
        verdict = f"the machine is too noisy: two measurements differ by up to {percent(apart)}"
    else:
        verdict = f"two measurements agree within {percent(AGREEMENT)} (they differ by {percent(apart)} at most)"
    indent = " " * 11
    told = wrap(f"second ÷ first: {changes}", 80, initial_indent=indent, subsequent_indent=indent)
    return [f"repeated   {verdict}", *told]
