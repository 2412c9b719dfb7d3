"""`roofline count`: what a program asks of any machine, without running it."""

from pathlib import Path
from typing import Any

import click

from roofline.cli.common import judge_options, output_options, program_options


@click.command()
@program_options
@click.option("--compile", "compiled", is_flag=True, help="Also count the graph that torch.compile would make.")
@judge_options
@output_options
def command(outputs: tuple[Path, ...], as_json: bool, origin: Any, **chosen: Any) -> None:
    """Count the FLOP and bytes of TARGET on fake tensors: no weights are allocated, nothing is timed.

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
    from roofline.pipeline import count_target, own_machine

    check_outputs(outputs, chosen["machine"])
    check_origin(origin, compiled=chosen["compiled"])
    options = make_options(chosen)
    with program_talks_on_stderr():
        target = targets.find(chosen["target"])
        machine = chosen_machine(chosen, lambda: own_machine(options.device, say))
        run = count_target(target, options, machine, origin=origin, say=say)
    deliver(run, as_json=as_json, outputs=outputs)
