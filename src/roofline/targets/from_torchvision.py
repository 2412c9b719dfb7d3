"""Models of torchvision by name, with random weights and inputs of the size that their weights were made for."""

from difflib import get_close_matches
from typing import Any

from roofline.errors import UsageError
from roofline.targets.made import Made, Target
from roofline.targets.options import Options
from roofline.targets.packages import need

# Frames per clip and image sides for models whose weights state none.
_DEFAULT_SIDE = 224
_SEGMENTATION_SIDE = 520
_FLOW_SIZE = (512, 512)
_DETECTION_SIZE = (800, 800)
_FRAMES = 16
# Initialise weights by scipy's truncated normal unless told not to, and warn about it.
_SLOW_INIT = ("googlenet", "inception_v3")


def target(name: str) -> Target:
    """Find `torchvision:NAME`.

    Raises:
        UsageError: torchvision has no such model.
    """
    models = need("torchvision", "vision").models
    if name not in models.list_models():
        near = ", ".join(get_close_matches(name, models.list_models(), 3)) or "see torchvision.models.list_models()"
        raise UsageError(f'torchvision has no model "{name}"', f"near names: {near}")
    return Target(f"torchvision:{name}", lambda options: _make(name, options))


def _make(name: str, options: Options) -> Made:
    import torch

    models = need("torchvision", "vision").models
    if options.tokens is not None:
        raise UsageError("--tokens is for models of text", "leave it out")
    batch = options.batch or 8
    with torch.device(options.device):
        # Weights stay random; naming none for the backbone keeps detection models from downloading theirs.
        known: dict[str, Any] = {"weights_backbone": None} if _takes(models, name, "weights_backbone") else {}
        if name.startswith("vit_"):
            known["image_size"] = image_side(name)
        if _family(models, name) == "segmentation" and _takes(models, name, "aux_loss"):
            # As with weights: their published FLOP include the auxiliary classifier, which runs in inference too.
            known["aux_loss"] = True
        if name in _SLOW_INIT:
            known["init_weights"] = False
        module = models.get_model(name, weights=None, **known)
        inputs = _inputs(_family(models, name), name, batch, options)
    return Made(
        module=module, inputs=inputs, items=batch, item="clip" if _family(models, name) == "video" else "image"
    )


def _inputs(family: str, name: str, batch: int, options: Options) -> tuple[Any, ...]:
    import torch

    if family == "detection":
        images = [torch.rand(3, *_DETECTION_SIZE) for _ in range(batch)]
        return (images, [_boxes(name) for _ in range(batch)]) if options.train else (images,)
    if family == "optical_flow":
        return torch.rand(batch, 3, *_FLOW_SIZE), torch.rand(batch, 3, *_FLOW_SIZE)
    if family == "segmentation":
        return (torch.rand(batch, 3, _SEGMENTATION_SIDE, _SEGMENTATION_SIDE),)
    if family == "video":
        height, width = video_size(name)
        return (torch.rand(batch, 3, frames(name), height, width),)
    side = image_side(name)
    return (torch.rand(batch, 3, side, side),)


def image_side(name: str) -> int:
    """Side of the square images that a classification model's default weights take, in pixels."""
    return int(_crop(name, _DEFAULT_SIDE))


def video_size(name: str) -> tuple[int, int]:
    """Height and width of the clips that a video model's default weights take, in pixels."""
    crop = _crop(name, 112)
    return (crop, crop) if isinstance(crop, int) else (crop[0], crop[-1])


def frames(name: str) -> int:
    """Frames per clip that a video model's default weights were made for."""
    weights = _default_weights(name)
    return int(weights.meta.get("num_frames", _FRAMES)) if weights else _FRAMES


def _crop(name: str, fallback: int) -> Any:
    weights = _default_weights(name)
    crop = getattr(weights.transforms(), "crop_size", [fallback]) if weights else [fallback]
    return crop[0] if isinstance(crop, list | tuple) and len(crop) == 1 else crop


def _default_weights(name: str) -> Any:
    models = need("torchvision", "vision").models
    return getattr(models.get_model_weights(name), "DEFAULT", None)


def _family(models: Any, name: str) -> str:
    module = models.get_model_builder(name).__module__
    parts = module.removeprefix("torchvision.models.").split(".")
    return parts[0] if len(parts) > 1 else "classification"


def _takes(models: Any, name: str, keyword: str) -> bool:
    import inspect

    return keyword in inspect.signature(models.get_model_builder(name)).parameters


def _boxes(name: str) -> dict[str, Any]:
    """One object in the middle of an image, as a detection model is trained with."""
    import torch

    height, width = _DETECTION_SIZE
    found: dict[str, Any] = {
        "boxes": torch.tensor([[width * 0.25, height * 0.25, width * 0.75, height * 0.75]]),
        "labels": torch.ones(1, dtype=torch.int64),
    }
    if "mask" in name:
        found["masks"] = torch.ones(1, height, width, dtype=torch.uint8)
    if "keypoint" in name:
        found["keypoints"] = torch.full((1, 17, 3), 400.0)
    return found
