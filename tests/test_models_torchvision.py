"""Every model that torchvision lists, against the FLOP that torchvision publishes with its weights."""

import warnings

import pytest

pytest.importorskip("torchvision")

import torch
from torchvision import models

import roofline
from roofline.core.run import Run
from roofline.pipeline import count_target
from roofline.targets import Options, find

FLOAT = [n for n in models.list_models() if not n.startswith("quantized_")]
CLASSIFICATION = list(models.list_models(module=models))
DETECTION = models.list_models(module=models.detection)
# Segmentation, video and optical flow.
OTHERS = [n for n in FLOAT if n not in CLASSIFICATION and n not in DETECTION]


def family(name: str) -> str:
    return models.get_model_builder(name).__module__


def counted(name: str, *, batch: int = 2, train: bool = False) -> Run:
    run = count_target(find(f"torchvision:{name}"), Options(batch=batch, train=train), None)
    assert run.coverage.unknown_ops == (), name
    assert not run.warnings, name
    return run


def check_against_published(name: str) -> None:
    """Within 1 %, or within the rounding of the published figure to 0.001 GMAC (mobilenets are that small)."""
    published = models.get_model_weights(name).DEFAULT.meta["_ops"]
    gmacs = counted(name, batch=2).flops.executed / 2 / 2e9
    assert gmacs == pytest.approx(published, rel=0.01, abs=0.0006), name


REPRESENTATIVES = ["alexnet", "resnet18", "regnet_y_400mf", "vit_b_16", "swin_t", "mobilenet_v3_small", "raft_small"]


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_a_model_of_torchvision_counts_what_is_published(name: str) -> None:
    check_against_published(name)


@pytest.mark.slow
def test_every_classification_model_counts_what_is_published() -> None:
    for name in CLASSIFICATION:
        check_against_published(name)


@pytest.mark.slow
def test_every_segmentation_video_and_flow_model_counts_what_is_published() -> None:
    for name in OTHERS:
        check_against_published(name)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "vit_b_32"])
def test_training_a_model_costs_three_forwards_less_the_images_gradient(name: str) -> None:
    check_training(name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted({family(n) for n in (*CLASSIFICATION, *OTHERS)}))
def test_training_every_model_has_no_unknown_op(kind: str) -> None:
    for name in (n for n in (*CLASSIFICATION, *OTHERS) if family(n) == kind):
        check_training(name)


def test_vit_b_16_counts_the_attention_of_its_fused_path() -> None:
    # 17.56 GMAC per image, the fused attention included.
    assert counted("vit_b_16", batch=2).flops.executed / 2 == pytest.approx(2 * 17.56e9, rel=0.005)


def check_training(name: str) -> None:
    """Backward is twice forward, but the images need no gradient: between 2.5 and 3 forwards in all."""
    run = counted(name, train=True)
    forward = sum(o.executed_flops for o in run.ops if o.phase == "forward")
    assert 2.5 < run.flops.needed / forward <= 3.0, name  # a fused backward executes more: it computes scores again
    if family(name).rpartition(".")[2] not in ("googlenet", "inception"):  # these train auxiliary heads
        published = models.get_model_weights(name).DEFAULT.meta["_ops"]
        assert forward / 2 / 2e9 == pytest.approx(published, rel=0.01, abs=0.0006), name


def detector(name: str) -> torch.nn.Module:
    """A detection model for images of 96 pixels, where it can be told; SSD has its own sizes."""
    sized = {} if name.startswith("ssd") else {"min_size": 96, "max_size": 96}
    return models.get_model(name, weights=None, weights_backbone=None, num_classes=2, **sized)


def objects(name: str) -> dict[str, torch.Tensor]:
    found = {"boxes": torch.tensor([[20.0, 20.0, 70.0, 70.0]]), "labels": torch.ones(1, dtype=torch.int64)}
    if "mask" in name:
        found["masks"] = torch.ones(1, 96, 96, dtype=torch.uint8)
    if "keypoint" in name:
        found["keypoints"] = torch.tensor([[[40.0, 40.0, 1.0]]]).repeat(1, 17, 1)
    return found


def check_detection(name: str, *, train: bool) -> None:
    # The published figures (134.38 GMAC for Faster and Mask R-CNN alike) hold for one set of proposals on images
    # of 800 pixels. How many boxes come through depends on the data, so here only coverage is checked.
    model, images = detector(name).train(train), [torch.rand(3, 96, 96) for _ in range(2)]
    targets = [objects(name) for _ in range(2)]
    run = roofline.count(model, images, *([targets] if train else []), train=train)
    assert run.coverage.unknown_ops == (), name
    assert run.flops.executed > 0
    assert [w for w in run.warnings if "one real run" in w], "boxes depend on the data"


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_every_detection_model_has_no_unknown_op(train: bool) -> None:
    for name in DETECTION:
        check_detection(name, train=train)


QUANTISED = [n for n in models.list_models() if n.startswith("quantized_")]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "quantized_resnet18" else pytest.mark.slow) for n in QUANTISED]
)
def test_a_quantised_model_counts_the_integer_work_that_is_published(name: str) -> None:
    weights = models.get_model_weights(name).DEFAULT
    (side,) = weights.transforms().crop_size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao.quantization is deprecated, as torchvision's own models are
        model = models.get_model(name, weights=None, quantize=True)
        run = roofline.count(model, torch.rand(1, 3, side, side))
    assert run.coverage.unknown_ops == ()
    assert run.flops.executed / 2e9 == pytest.approx(weights.meta["_ops"], rel=0.01, abs=0.0006)
    assert set(map(str, run.flops.by_precision)) == {"int8"}
