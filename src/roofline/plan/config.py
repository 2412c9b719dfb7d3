"""CONFIG on the command line → Architecture: a file, a folder, a name of the catalogue, a hub id, or a bare size."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from roofline.errors import RooflineError, UsageError
from roofline.plan.architecture import Architecture, Layer, Stack
from roofline.plan.parts import Matrix
from roofline.plan.readers import READERS

_LARGEST_FILE = 16 * 2**20
_DTYPES = ("bfloat16", "float16", "float32")


def load(text: str, *, like: str | None = None) -> Architecture:
    """Give the architecture that CONFIG means.

    Args:
        text: Path of a config.json or of its folder, a name of the catalogue, or a hub id.
        like: Family to read an unknown model_type as, an approximation that the plan states.

    Raises:
        UsageError: Nothing of that name is found, or the config can't be read.
    """
    path = Path(text)
    try:
        path = path / "config.json" if path.is_dir() else path
        is_file = path.is_file()
    except OSError as error:
        raise UsageError(f"can't look for a config at {text}: {error.strerror}", _HOW) from None
    if is_file:
        return read(_json(path), _name_of(path), like=like)
    if path.suffix == ".json" or text.startswith((".", "/", "~")):
        raise UsageError(f"there is no config at {text}", "give a config.json, its folder, or a name")
    from roofline.plan.catalogue import find

    found = find(text)
    if found is not None:
        return read(found.config, found.key, like=like)
    if "/" in text:
        return read(_from_hub(text), text, like=like)
    raise _unknown_name(text)


def read(config: Mapping[str, Any], name: str, *, like: str | None = None) -> Architecture:
    """Read a config.

    Args:
        config: As in config.json.
        name: What to call the model.
        like: Family to read it as.

    Raises:
        UsageError: The family is unknown, or a field is missing or senseless.
    """
    if not isinstance(config, Mapping):
        raise UsageError(f"{name} is no config: expected an object of fields", "give a config.json")
    kind = str(config.get("model_type") or "")
    if like is not None and like not in READERS:
        raise UsageError(
            f"--like {like} names no family (known: {', '.join(sorted(READERS))})", "choose one of these"
        )
    if kind not in READERS and like is None:
        raise _unknown_family(config, kind, name)
    notes: tuple[str, ...] = ()
    if like is not None and like != kind:
        notes = (f'"{kind or "no model_type"}" read as {like}: an approximation that you asked for',)
    try:
        made = READERS[like or kind]({**config, "model_type": like or kind}, name)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"{type(error).__name__} {error}"[:200]
        raise UsageError(f"can't read the config of {name}: {reason}", "check it") from None
    dtype = str(_first(config, "torch_dtype", "dtype") or "bfloat16")
    quantization = config.get("quantization_config") or {}
    return msgspec.structs.replace(
        made,
        model_type=kind or made.model_type,
        dtype=dtype if dtype in _DTYPES else "bfloat16",
        quantization=dict(quantization) if isinstance(quantization, Mapping) else {},
        notes=(*made.notes, *notes),
    )


def napkin(params: float) -> Architecture:
    """A model of nothing but its size: matrices that every token goes through, no attention, no cache.

    Raises:
        UsageError: The size is no size.
    """
    if not 1 <= params <= 1e15:
        raise UsageError(f"--params {params:g} is no number of parameters", "write it like --params 70e9")
    number = round(params)
    side = 10 ** max(0, len(str(number)) // 2 - 1)
    square = Layer((), 0, 0, (Matrix("weights", side, side, 0, "mlp"),))
    rows, bias = divmod(number % side**2, side)
    rest = (Layer((), 0, 0, (Matrix("weights", side, rows, bias, "mlp"),)),) if rows or bias else ()
    return Architecture(
        name=f"{params / 1e9:g} billion parameters",
        model_type="napkin",
        stack=Stack("model", side, (square,) * (number // side**2) + rest),
        vocab=0,
        notes=("weights only: attention, KV cache and activations are left out",),
    )


def _first(config: Mapping[str, Any], *names: str) -> Any:
    inner = config.get("text_config") or {}
    return next((c[n] for c in (config, inner) for n in names if c.get(n)), None)


def _name_of(path: Path) -> str:
    return path.parent.resolve().name if path.stem == "config" else path.stem


def _json(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise UsageError(f"{path} is too large for a config", "give the model's config.json")
        data = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}", "give a config.json or its folder") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}", "give the model's config.json") from None
    if not isinstance(data, Mapping):
        raise UsageError(f"{path} is no config: expected an object of fields", "give the model's config.json")
    return data


def _from_hub(name: str) -> Mapping[str, Any]:
    """Fetch config.json from the hub; of the model nothing else is loaded."""
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise UsageError(
            f'"{name}" is not in the catalogue, and huggingface_hub is not installed to look on the hub',
            "give the path of its config.json, or: pip install huggingface_hub",
        ) from None
    try:
        return _json(Path(hf_hub_download(name, "config.json")))
    except RooflineError:
        raise
    except Exception as error:  # noqa: BLE001 — the hub's client raises many kinds; each means "not there"
        reason = (str(error).strip().splitlines() or [""])[0][:200]
        raise UsageError(f'can\'t get the config of "{name}" from the hub: {reason}', _HOW) from None


def _unknown_name(text: str) -> UsageError:
    from difflib import get_close_matches

    from roofline.plan.catalogue import names

    near = get_close_matches(text.lower(), names(), 4, 0.5)
    also = f"; near names: {', '.join(near)}" if near else ""
    return UsageError(f'"{text}" is no model of the catalogue and no file{also}', _HOW)


def _unknown_family(config: Mapping[str, Any], kind: str, name: str) -> UsageError:
    what = f'model_type "{kind}"' if kind else "a config without model_type"
    hint = "plan it as a known family, an approximation that the result states: --like llama"
    if not kind and "hidden_size" not in config:
        hint = "give the model's config.json"
    return UsageError(f"{name}: {what} is not known, so its layers are not either", hint)


_HOW = "give the path of a config.json or its folder; or only a size: --params 70e9"
