"""`roofline schema`: the JSON schema of a Run."""

import click


@click.command()
def command() -> None:
    """Print the JSON schema (draft 2020-12) of a saved Run."""
    import json

    from roofline.cli.stdout import emit
    from roofline.core.run import json_schema

    emit(json.dumps(json_schema(), indent=2) + "\n")
