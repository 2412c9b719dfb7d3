"""Reading a config's fields: numbers checked, the many spellings of one thing, what is missing named."""

from collections.abc import Mapping
from typing import Any

from roofline.errors import UsageError

Config = Mapping[str, Any]
# Above this no size is a size: 10^9 rows of anything is a slip or an attack.
_LARGEST = 10**9


def size(config: Config, *names: str, default: int | None = None) -> int:
    """A positive whole number under the first of `names` that the config has.

    Raises:
        UsageError: None of them is there, or it is no sensible size.
    """
    value = first(config, *names)
    if value is None:
        if default is not None:
            return default
        raise missing(config, names[0])
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value != round(value):
        raise UsageError(f"{names[0]} is {value!r}, expected a whole number", "check the config")
    if not 0 < value <= _LARGEST:
        raise UsageError(f"{names[0]} is {value:g}, expected 1 to {_LARGEST:g}", "check the config")
    return int(value)


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
