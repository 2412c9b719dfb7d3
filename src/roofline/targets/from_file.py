"""A factory in the user's own file: path/to/file.py:factory."""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from roofline.errors import RooflineError, UsageError
from roofline.targets.made import Made, Target
from roofline.targets.options import Options

_RETURNS = "a factory returns (module, inputs), or a step to call that takes nothing"


def target(path: str, name: str) -> Target:
    """Find `path/to/file.py:NAME`; the file is run once, here.

    The factory may take any of the keywords `batch`, `tokens`, `device` and `train`.

    Raises:
        UsageError: There is no such file or function.
        RooflineError: The file fails.
    """
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"there is no file {path}", "give the path of a Python file: path/to/file.py:factory")
    module = _load(file)
    factory = getattr(module, name, None)
    if not callable(factory):
        names = [n for n, v in vars(module).items() if inspect.isfunction(v)]
        near = ", ".join(get_close_matches(name, names, 3) or names[:5]) or "it defines no function"
        raise UsageError(f'{path} has no function "{name}"', f"it has: {near}")
    return Target(f"{path}:{name}", lambda options: _make(f"{path}:{name}", factory, options))


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise RooflineError(
            f"{file} failed: {_where(error)}", "run it with python to see why, or add --debug"
        ) from error
    finally:
        sys.path.remove(str(file.parent))
    return module


def _make(label: str, factory: Callable[..., Any], options: Options) -> Made:
    import torch

    accepted = inspect.signature(factory).parameters
    offered = {"batch": options.batch, "tokens": options.tokens, "device": options.device, "train": options.train}
    for name in ("batch", "tokens"):
        if offered[name] is not None and name not in accepted:
            raise UsageError(
                f"{label} takes no {name}", f"give the factory a parameter named {name}, or leave --{name} out"
            )
    keywords = {k: v for k, v in offered.items() if k in accepted and v is not None}
    with torch.device(options.device):
        made = factory(**keywords)
    return _sorted_out(label, made)._replace(items=options.batch)


def _sorted_out(label: str, made: Any) -> Made:
    """Tell a module with inputs from a step."""
    import torch

    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module):
        module, inputs = made
        if isinstance(inputs, dict):
            return Made(module=module, keywords=inputs)
        return Made(module=module, inputs=inputs if isinstance(inputs, tuple | list) else (inputs,))
    if isinstance(made, torch.nn.Module):
        raise UsageError(f"{label} returned a module without inputs", _RETURNS)
    if callable(made):
        return Made(step=made)
    raise UsageError(f"{label} returned {type(made).__name__}", _RETURNS)


def _where(error: BaseException) -> str:
    """One line of an exception, with the place in the user's file."""
    text = (str(error).strip().splitlines() or [""])[0][:200]
    places = [
        f"{Path(f.filename).name}, line {f.lineno}"
        for f in extract_tb(error.__traceback__)
        if "importlib" not in f.filename and f.filename != __file__
    ]
    if isinstance(error, SyntaxError):
        # Its place is its own; the last frame is at best that of the file which imports it.
        text = error.msg
        places = [f"{Path(error.filename).name}, line {error.lineno}"] if error.filename and error.lineno else []
    return f"{type(error).__name__}: {text}{f' ({places[-1]})' if places else ''}"
