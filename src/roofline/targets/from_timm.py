"""Models of timm by name, with random weights."""

from difflib import get_close_matches

from roofline.errors import UsageError
from roofline.targets.made import Made, Target
from roofline.targets.options import Options
from roofline.targets.packages import need


def target(name: str) -> Target:
    """Find `timm:NAME`.

    Raises:
        UsageError: timm is missing, or has no such model.
    """
    timm = need("timm", "timm")
    if not timm.is_model(name):
        near = ", ".join(get_close_matches(name, timm.list_models(), 3)) or "see timm.list_models()"
        raise UsageError(f'timm has no model "{name}"', f"near names: {near}")
    return Target(f"timm:{name}", lambda options: _make(name, options))


def _make(name: str, options: Options) -> Made:
    import torch

    if options.tokens is not None:
        raise UsageError("--tokens is for models of text", "leave it out")
    batch = options.batch or 8
    with torch.device(options.device):
        module = need("timm", "timm").create_model(name, pretrained=False)
        images = torch.rand(batch, *module.pretrained_cfg["input_size"])
    return Made(module=module, inputs=(images,), items=batch, item="image")
