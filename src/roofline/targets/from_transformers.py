"""Models of Hugging Face transformers from a config.json, with random weights."""

import json
from pathlib import Path
from typing import Any

from roofline.core.precision import Precision
from roofline.errors import UsageError
from roofline.targets.made import Made, Target
from roofline.targets.options import Options
from roofline.targets.packages import need

_DEFAULT_TOKENS = 512


def target(path: str) -> Target:
    """Find `transformers:PATH`, a config.json or its folder.

    Raises:
        UsageError: There is no readable config.
    """
    file = Path(path) / "config.json" if Path(path).is_dir() else Path(path)
    try:
        facts = json.loads(file.read_text())
    except OSError as error:
        raise UsageError(
            f"can't read {file}: {error.strerror}", "give a config.json or the folder that holds it"
        ) from None
    except ValueError as error:
        raise UsageError(f"{file} is no JSON: {error}", "give a Hugging Face config.json") from None
    if not isinstance(facts, dict) or "model_type" not in facts:
        raise UsageError(f'{file} has no "model_type"', "give a Hugging Face config.json")
    return Target(f"transformers:{path}", lambda options: _make(file, facts, options))


def _make(file: Path, facts: dict[str, Any], options: Options) -> Made:
    import torch

    transformers = need("transformers", "transformers")
    config = _config(transformers, file, facts)
    model_class = _model_class(transformers, config, facts)
    dtype = _dtype(torch, config, options.precision)
    with torch.device(options.device):
        module = model_class._from_config(config, dtype=dtype)
        batch = options.batch or 1
        keywords, items, item = _inputs(torch, module, config, batch, options)
    return Made(module=module, keywords=keywords, items=items, item=item)


def _config(transformers: Any, file: Path, facts: dict[str, Any]) -> Any:
    kinds = transformers.models.auto.configuration_auto.CONFIG_MAPPING
    if facts["model_type"] not in kinds:
        raise UsageError(
            f'transformers {transformers.__version__} knows no model type "{facts["model_type"]}" ({file})',
            "update transformers, or give a file.py:factory that builds the model",
        )
    config = kinds[facts["model_type"]].from_dict(facts)
    config.use_cache = False
    return config


def _model_class(transformers: Any, config: Any, facts: dict[str, Any]) -> Any:
    """The class that the config names, else the auto class for its kind."""
    for name in facts.get("architectures") or []:
        if hasattr(transformers, name):
            return getattr(transformers, name)
    for auto in ("MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", "MODEL_MAPPING"):
        mapping = getattr(transformers, auto)
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, tuple) else found
    raise UsageError(f'no model class for "{facts["model_type"]}"', 'add "architectures" to the config')


def _dtype(torch: Any, config: Any, precision: Precision | None) -> Any:
    """FP32 weights under autocast, as a training stack keeps them; else the checkpoint's own dtype."""
    own = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
    if precision is not None or own is None:
        return torch.float32
    return getattr(torch, own) if isinstance(own, str) else own


def _inputs(torch: Any, module: Any, config: Any, batch: int, options: Options) -> tuple[dict[str, Any], int, str]:
    kind = module.main_input_name
    text = config.get_text_config()
    if kind == "pixel_values":
        vision = getattr(config, "vision_config", config)
        side = vision.image_size
        height, width = (side, side) if isinstance(side, int) else side
        images = torch.rand(batch, getattr(vision, "num_channels", 3), height, width, dtype=module.dtype)
        return {"pixel_values": images}, batch, "image"
    if kind == "input_features":
        features = torch.rand(batch, config.num_mel_bins, 2 * config.max_source_positions, dtype=module.dtype)
        decoder = torch.zeros(batch, 64, dtype=torch.int64)
        return {"input_features": features, "decoder_input_ids": decoder}, batch, "clip"
    tokens = options.tokens or min(_DEFAULT_TOKENS, getattr(text, "max_position_embeddings", None) or _DEFAULT_TOKENS)
    ids = torch.randint(0, text.vocab_size, (batch, tokens))
    keywords = {"input_ids": ids}
    if options.train:
        keywords["labels"] = ids
    elif config.is_encoder_decoder:
        keywords["decoder_input_ids"] = ids
    return keywords, batch * tokens, "token"
