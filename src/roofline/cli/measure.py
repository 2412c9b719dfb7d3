"""`roofline measure`: which ceiling a program hits on this machine."""

import math
from pathlib import Path
from typing import Any

import click

from roofline.cli.common import judge_options, output_options, program_options


@click.command()
@program_options
@click.option("--compile", "compiled", is_flag=True, help="Time it through torch.compile.")
@click.option(
    "--seconds", type=click.FloatRange(0.1, 86_400), default=10.0, show_default=True, help="Time spent timing."
)
@click.option("--device", default="cpu", show_default=True, help="Where it runs: cpu, cuda, cuda:1, mps.")
@judge_options
@output_options
def command(outputs: tuple[Path, ...], as_json: bool, origin: Any, seconds: float, **chosen: Any) -> None:
    """Count TARGET, time it, and say which ceiling binds, with the proof.

    TARGET: torchvision:NAME, timm:NAME, transformers:CONFIG.json, or path/to/file.py:factory.
    """
    from roofline import targets
    from roofline.cli.common import (
        check_origin,
        check_outputs,
        chosen_machine,
        deliver,
        make_options,
        program_talks_on_stderr,
        say,
    )
    from roofline.errors import UsageError
    from roofline.pipeline import check_device, measure_target, own_machine

    check_outputs(outputs, chosen["machine"])
    check_origin(origin, compiled=chosen["compiled"])
    if not math.isfinite(seconds):
        raise UsageError(f"--seconds {seconds:g} is no time", "give a number: --seconds 10")
    options = make_options(chosen)
    check_device(options.device)
    with program_talks_on_stderr():
        target = targets.find(chosen["target"])
        run = measure_target(
            target,
            options,
            lambda: chosen_machine(chosen, lambda: own_machine(options.device, say)),
            seconds=seconds,
            origin=origin,
            say=say,
        )
    deliver(run, as_json=as_json, outputs=outputs)
