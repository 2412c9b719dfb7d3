"""Read TARGET and find who makes it."""

from collections.abc import Callable
from pathlib import Path

from roofline.errors import UsageError
from roofline.targets import from_file, from_timm, from_torchvision, from_transformers
from roofline.targets.made import Target

_SOURCES: dict[str, Callable[[str], Target]] = {
    "torchvision": from_torchvision.target,
    "timm": from_timm.target,
    "transformers": from_transformers.target,
}
FORMS = "torchvision:resnet50, transformers:config.json, timm:NAME, or path/to/file.py:factory"


def find(text: str) -> Target:
    """Find the target that `text` names; nothing is built yet.

    Raises:
        UsageError: There is no such target.
    """
    source, colon, name = text.partition(":")
    if colon and name and source in _SOURCES:
        return _SOURCES[source](name)
    file, colon, factory = text.rpartition(":")
    if colon and file.endswith(".py"):
        return from_file.target(file, factory)
    if text.endswith(".py") and Path(text).exists():
        raise UsageError(f'"{text}" names no factory', f"add the function that makes the program: {text}:NAME")
    raise UsageError(f'unknown target "{text}"', f"write one of: {FORMS}")
