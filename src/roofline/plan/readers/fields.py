"""Reading a config's fields: numbers checked, the many spellings of one thing, what is missing named."""

from collections.abc import Mapping
from typing import Any

from roofline.errors import UsageError

Config = Mapping[str, Any]
# Above this no size is a size: 10^9 rows of anything is a slip or an attack.
_LARGEST = 10**9
# A list of layers is made, so that there may not be a billion of them.
MOST_LAYERS = 10_000
_SHOWN = 40


def size(config: Config, *names: str, default: int | None = None, most: int = _LARGEST) -> int:
    """A positive whole number under the first of `names` that the config has.

    Raises:
        UsageError: None of them is there, or it is no sensible size.
    """
    value = first(config, *names)
    if value is None:
        if default is not None:
            return default
        raise missing(config, names[0])
    return _checked(names[0], value, most)


def count(config: Config, *names: str, default: int = 0, most: int = _LARGEST) -> int:
    """A whole number that may be left out; 0 is left out as well.

    Raises:
        UsageError: It is no sensible number.
    """
    value = next((config[n] for n in names if config.get(n)), None)
    return default if value is None else _checked(names[0], value, most)


def ratio(config: Config, name: str, default: float) -> float:
    """A width over another one.

    Raises:
        UsageError: It is no sensible one.
    """
    value = config.get(name) or default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST:
        raise UsageError(f"{name} is {_brief(value)}, expected a ratio such as {default:g}", "check the config")
    return float(value)


def _checked(name: str, value: Any, most: int) -> int:
    """A whole number from 1; of a senseless one no more is said than fits a line."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and not 0 < value <= most:
        raise UsageError(f"{name} is {_brief(value)}, expected 1 to {most:,}", "check the config")
    if not number or value != int(value):
        raise UsageError(f"{name} is {_brief(value)}, expected a whole number", "check the config")
    return int(value)


def _brief(value: Any) -> str:
    # A number may have more digits than Python agrees to print.
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def first(config: Config, *names: str) -> Any:
    """The value under the first of `names` that is there and not null."""
    return next((config[n] for n in names if config.get(n) is not None), None)


def flag(config: Config, name: str, default: bool = False) -> bool:
    """A yes or no."""
    value = config.get(name)
    return default if value is None else bool(value)


def missing(config: Config, name: str) -> UsageError:
    """The error for a field that the reader of this family needs."""
    kind = config.get("model_type", "unknown")
    return UsageError(
        f'the config of model_type "{kind}" has no {name}', "give the complete config.json of the model"
    )


def tied(config: Config, default: bool) -> bool:
    """Whether the head is the embedding."""
    return flag(config, "tie_word_embeddings", default)


def max_context(config: Config) -> int | None:
    """Longest sequence that the model was made for."""
    value = first(config, "max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
    return int(value) if isinstance(value, int) and 0 < value <= _LARGEST else None
