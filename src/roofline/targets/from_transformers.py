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
_DEFAULT_SIDE = 224
# One second of speech, as raw audio models of the wav2vec2 kind take it.
_SAMPLES = 16_000
_DECODER_TOKENS = 64
_TEXT = ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM")
_ENCODER_DECODER = ("SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ")


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
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        # Training shifts the labels right and begins them with this token; which one does not matter here.
        config.decoder_start_token_id = getattr(config, "bos_token_id", None) or 0
    return config


def _model_class(transformers: Any, config: Any, facts: dict[str, Any]) -> Any:
    """The class that the config names, else the auto class for its kind."""
    for name in facts.get("architectures") or []:
        if hasattr(transformers, name):
            return getattr(transformers, name)
    heads = _ENCODER_DECODER if config.is_encoder_decoder else _TEXT
    for auto in (*(f"MODEL_FOR_{head}_MAPPING" for head in heads), "MODEL_MAPPING"):
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
    if kind == "pixel_values":
        return {kind: _images(torch, module, config, batch)}, batch, "image"
    if kind in ("input_features", "input_values"):
        return _sound(torch, module, config, batch, kind), batch, "clip"
    text = config.get_text_config()
    tokens = options.tokens or min(_DEFAULT_TOKENS, getattr(text, "max_position_embeddings", None) or _DEFAULT_TOKENS)
    ids = torch.randint(0, text.vocab_size, (batch, tokens))
    keywords = {"input_ids": ids}
    if options.train:
        keywords["labels"] = ids
    elif config.is_encoder_decoder:
        keywords["decoder_input_ids"] = ids
    return keywords, batch * tokens, "token"


def _images(torch: Any, module: Any, config: Any, batch: int) -> Any:
    vision = getattr(config, "vision_config", config)
    side = getattr(vision, "image_size", _DEFAULT_SIDE)
    height, width = (side, side) if isinstance(side, int) else side
    return torch.rand(batch, getattr(vision, "num_channels", 3), height, width, dtype=module.dtype)


def _sound(torch: Any, module: Any, config: Any, batch: int, kind: str) -> dict[str, Any]:
    """Log-mel features for models that state their bins, raw samples for the others."""
    bins = getattr(config, "num_mel_bins", None)
    if bins is None:
        return {kind: torch.rand(batch, _SAMPLES, dtype=module.dtype)}
    if not config.is_encoder_decoder:
        return {kind: torch.rand(batch, getattr(config, "max_length", _DEFAULT_TOKENS), bins, dtype=module.dtype)}
    features = torch.rand(batch, bins, 2 * config.max_source_positions, dtype=module.dtype)
    return {kind: features, "decoder_input_ids": torch.zeros(batch, _DECODER_TOKENS, dtype=torch.int64)}
