"""`roofline calibrate`: the sustained ceilings of this machine."""

import sys
from pathlib import Path

import click

from roofline.core.machine import Machine
from roofline.core.units import percent


@click.command()
@click.option("--device", default="cpu", show_default=True, help="What to measure: cpu, cuda, cuda:1, mps.")
@click.option("--quick", "is_quick", is_flag=True, help="Under 10 s, without the caches; the default takes a minute.")
@click.option("--json", "as_json", is_flag=True, help="Print the machine as one JSON document.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write a machine file for --machine (.json).")
def command(device: str, is_quick: bool, as_json: bool, output: Path | None) -> None:
    """Measure matrix rates per precision, memory and cache bandwidth, and the launch cost of an op.

    The result is kept in the user's cache folder, where `roofline measure` finds it.
    """
    import msgspec

    from roofline import machines
    from roofline.cli.common import say
    from roofline.cli.devices import sheet
    from roofline.core.run import write_whole
    from roofline.errors import UsageError
    from roofline.pipeline import check_device

    if output is not None and (output.suffix != ".json" or not output.parent.is_dir()):
        raise UsageError(f"can't write a machine file to {output}", "give a .json file in a folder that exists")
    check_device(device)
    from roofline.clock.cache import keep
    from roofline.clock.ceilings import full, quick, with_ceilings

    identity = machines.detect(device)
    ceilings = (quick if is_quick else full)(device, identity, progress=say)
    measured = with_ceilings(identity, ceilings)
    say(f"kept in {keep(measured)}")
    document = msgspec.json.format(msgspec.json.encode(measured), indent=2) + b"\n"
    if output is not None:
        write_whole(output, document)
        say(f"wrote {output}; use it with --machine {output}")
    if as_json:
        sys.stdout.buffer.write(document)
        return
    click.echo(sheet(measured))
    for line in _against_datasheet(identity, measured):
        click.echo(line)


def _against_datasheet(identity: Machine, measured: Machine) -> list[str]:
    """What was sustained as a share of what the vendor states, where it states anything."""
    pairs = [(str(p), c, measured.matrix.get(p)) for p, c in identity.matrix.items()]
    pairs += [(str(level), c, measured.bandwidth.get(level)) for level, c in identity.bandwidth.items()]
    return [
        f"{name:<8} sustained {percent(found.value / stated.value)} of the datasheet"
        for name, stated, found in pairs
        if found is not None and found.origin == "measured"
    ]
