"""`roofline report`: write a saved Run in another format."""

from pathlib import Path

import click


@click.command()
@click.argument("run_file", metavar="RUN.json", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write .html, .png, .svg, .md or .json.")
@click.option("--json", "as_json", is_flag=True, help="Print the Run as one JSON document.")
def command(run_file: Path, output: Path | None, as_json: bool) -> None:
    """Show a saved Run on the screen, or write it with -o. Needs no torch."""
    from roofline.cli.common import check_output, deliver
    from roofline.core.run import Run

    check_output(output)
    deliver(Run.load(run_file), as_json=as_json, output=output)
