"""What a target gives: a module with its inputs, or a step to call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from roofline.targets.options import Options


class Made(NamedTuple):
    """A program's parts, fresh from its factory.

    Attributes:
        module: The module; None when there is only a step.
        inputs: Positional inputs of the module.
        keywords: Keyword inputs of the module.
        step: A zero-argument step, when there is no module.
        items: Samples (or tokens) per step; None when unknown.
        item: What is counted by `items`: "image", "token", "sample".
        meta: Whether something of it is on the meta device, which has no data.
        own: The caller's own module: its mode, device and layout are the caller's business.
        meta: Whether something of it is on the meta device, which has no data.
    """

    module: Any = None
    inputs: Sequence[Any] = ()
    keywords: Mapping[str, Any] = {}
    step: Callable[[], Any] | None = None
    items: int | None = None
    item: str = "sample"
    own: bool = False
    meta: bool = False


class Target(NamedTuple):
    """A named source of programs.

    Attributes:
        label: As the user wrote it.
        make: Makes the program's parts on the device named in the options; called once for counting (inside a
            fake tensor mode) and once for timing.
    """

    label: str
    make: Callable[[Options], Made]
