"""`roofline`: find the command, run it, turn errors into one line, a hint and an exit code."""

import io
import re
import sys
from importlib import import_module
from typing import Any

import click

from roofline import __version__
from roofline.cli.stdout import attach, closed, forget
from roofline.errors import RooflineError

# Name → module and the line that `roofline --help` shows, so that help imports no command.
_COMMANDS = {
    "measure": "Which ceiling a program hits, and what moving it is worth.",
    "count": "The same for any machine, without running the program.",
    "plan": "How fast a language model can decode, prefill or train, on what.",
    "devices": "Show machines: ceilings and ridge points.",
    "calibrate": "Measure what this machine can really do.",
    "sweep": "How throughput and bound move with batch, tokens and shape.",
    "audit": "Check whether a quoted MFU adds up, and what reproduces it.",
    "report": "Write a saved Run as a page, a picture or text.",
    "schema": "Print the JSON schema of a Run.",
}


class Commands(click.Group):
    """Imports a command's module when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of a first session."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"roofline.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands for `--help` without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, with near names when there is none."""
        from difflib import get_close_matches

        if args and args[0] not in _COMMANDS:
            near = get_close_matches(args[0], _COMMANDS, 2)
            hint = f"did you mean: {', '.join(near)}?" if near else f"commands: {', '.join(_COMMANDS)}"
            raise RooflineError(f'there is no command "{args[0]}"', hint, 2)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="roofline")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def roofline(debug: bool) -> None:
    """Which ceiling binds a program: compute, memory bandwidth, the network, or overhead?

    And how far below it is the program, and what is moving it worth?
    """


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit: 0 ok, 1 failed, 2 usage, 3 a given threshold was missed."""
    attach()
    arguments = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        # A terminal that has no "µ" gets a "?" rather than nothing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(run(arguments))


def run(arguments: list[str]) -> int:
    """Run one command in this process and return its exit code."""
    debug, stdout = "--debug" in arguments, sys.stdout
    try:
        result: Any = roofline.main(
            [a for a in arguments if a != "--debug"], prog_name="roofline", standalone_mode=False
        )
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as finished:
        return finished.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        print(asked.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        return _say(error.format_message(), _usage_hint(error), 2, debug)
    except RooflineError as error:
        return _say(error.message, error.hint, error.exit_code, debug)
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted; nothing was written", "", 1, debug)
    except SystemExit:
        # So click and rich leave where the reader of stdout has closed the pipe.
        if closed(stdout):
            forget(stdout)
            return 0
        raise
    except MemoryError:
        return _say("out of memory", "try a smaller --batch", 1, debug)
    except Exception as error:  # noqa: BLE001 — the last door: no traceback reaches the user
        if isinstance(error, OSError) and error.filename is not None:
            return _say(f"{error.strerror}: {error.filename}", "check the path, or add --debug", 1, debug)
        return _say(_unexpected(error), "add --debug for the traceback, and report it if the fault is ours", 1, debug)


def _say(message: str, hint: str, code: int, debug: bool) -> int:
    if debug and sys.exc_info()[0] is not None:
        import traceback

        traceback.print_exc()
    print(f"error: {_printable(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {_printable(hint)}", file=sys.stderr)
    return code


def _printable(text: str) -> str:
    """The text without control characters and endless words: names in it come from files and programs."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return re.sub(r"\S{300,}", lambda word: f"{word[0][:60]}…{word[0][-60:]}", plain)


def _usage_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"see: {context.command_path} --help" if context else "see: roofline --help"


def _unexpected(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"


if __name__ == "__main__":
    main()
