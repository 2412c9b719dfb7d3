"""What goes wrong, said once: a message, a hint, an exit code."""


class RooflineError(Exception):
    """An error to show the user as one line and a hint, never as a traceback.

    Args:
        message: What is wrong with which value, and what was expected.
        hint: What to do about it.
        exit_code: The command's exit status: 1 failed, 2 usage, 3 a given threshold was missed.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "", exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(RooflineError):
    """The request itself is wrong: an unknown name, an option out of range."""

    exit_code = 2


class MachineError(UsageError):
    """A machine's name is unknown or ambiguous, or it lacks the ceiling asked for."""


class RunFileError(RooflineError):
    """A saved Run can't be read or written."""
