"""`roofline report`: write a saved Run in another format."""

from pathlib import Path

import click

from roofline.cli.common import output_options


@click.command()
@click.argument("run_file", metavar="RUN.json", type=click.Path(path_type=Path))
@output_options
def command(run_file: Path, outputs: tuple[Path, ...], as_json: bool) -> None:
    """Show a saved Run on the screen, or write it with -o. Needs no torch."""
    from roofline.cli.common import check_outputs, deliver
    from roofline.core.run import Run

    check_outputs(outputs)
    deliver(Run.load(run_file), as_json=as_json, outputs=outputs)
