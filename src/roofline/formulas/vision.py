"""torchvision's ops: box suppression, region pooling, deformable convolution.

| op | formula | FLOP |
|---|---|---|
| nms | every pair of n boxes: intersection 9, union 2, quotient, comparison | 13·n·(n − 1)/2 |
| roi_align, ps_roi_align | per result, s² bilinear samples of 8, and a division | 8·s² + 1 |
| roi_pool, ps_roi_pool | one operation per pixel of the region | data |
| deform_conv2d | as a convolution, matrix work: 2·B·C_out·H·W·(C_in / groups)·R·S | |
| … sampling | per column element: bilinear 7, mask 1, vector work | 8 |

Pairs that suppression skips, sampling counts that follow the size of a region (taken as 2 × 2) and the sizes of
regions are data: estimates. A region op reads no more of its input than it samples, and never more than all of it.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

_SAMPLES = 2
_BILINEAR = 8


@formula("torchvision.nms", "torchvision.qnms")
def nms(boxes: TensorSpec, scores: TensorSpec, threshold: float, *, out: TensorSpec, **_: Any) -> Cost:
    """Non-maximum suppression: the overlap of every pair of boxes, 13 FLOP, at worst."""
    n = boxes.shape[0]
    return Cost(vector=13 * n * (n - 1) / 2, formula="estimate")


@formula("torchvision.box_iou_rotated")
def box_iou_rotated(a: TensorSpec, b: TensorSpec, *, out: TensorSpec, **_: Any) -> Cost:
    """Overlap of rotated boxes: about 200 FLOP per pair for corners, 16 edge crossings and the polygon's area."""
    return Cost(vector=200 * out.numel, formula="estimate")


def _align(x: TensorSpec, pooled: TensorSpec, ratio: int) -> Cost:
    samples = (ratio if ratio > 0 else _SAMPLES) ** 2
    touched = min(x.nbytes, pooled.numel * samples * 4 * x.item_bytes)
    return Cost(vector=pooled.numel * (_BILINEAR * samples + 1), read={0: touched}, formula="estimate")


@formula("torchvision.roi_align", "torchvision.ps_roi_align")
def roi_align(
    x: TensorSpec, rois: TensorSpec, scale: float, height: int, width: int, ratio: int, *args: Any, out: Any, **_: Any
) -> Cost:
    """Mean of s² bilinear samples per result: 8·s² + 1 FLOP."""
    return _align(x, out if isinstance(out, TensorSpec) else out[0], ratio)


@formula("torchvision.qroi_align")
def quantised_roi_align(x: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """As `roi_align`, on integers."""
    return _align(x, out, 0)


@formula("torchvision._roi_align_backward")
def roi_align_backward(
    grad: TensorSpec,
    rois: TensorSpec,
    scale: float,
    height: int,
    width: int,
    batch: int,
    channels: int,
    rows: int,
    columns: int,
    ratio: int,
    *args: Any,
    out: TensorSpec,
    **_: Any,
) -> Cost:
    """Each gradient spread over 4·s² pixels: 8·s² + 1 FLOP."""
    return _spread(grad, ratio)


@formula("torchvision._ps_roi_align_backward")
def ps_roi_align_backward(
    grad: TensorSpec,
    rois: TensorSpec,
    mapping: TensorSpec,
    scale: float,
    height: int,
    width: int,
    ratio: int,
    *args: Any,
    out: TensorSpec,
    **_: Any,
) -> Cost:
    """Each gradient spread over 4·s² pixels: 8·s² + 1 FLOP."""
    return _spread(grad, ratio)


def _spread(grad: TensorSpec, ratio: int) -> Cost:
    samples = (ratio if ratio > 0 else _SAMPLES) ** 2
    return Cost(vector=grad.numel * (_BILINEAR * samples + 1), formula="estimate")


@formula("torchvision.roi_pool", "torchvision.ps_roi_pool")
def roi_pool(x: TensorSpec, rois: TensorSpec, *args: Any, out: Sequence[TensorSpec], **_: Any) -> Cost:
    """Max or mean over the pixels of each bin: at least one operation per result."""
    pooled = out[0]
    return Cost(vector=pooled.numel, read={0: min(x.nbytes, pooled.nbytes)}, formula="estimate")


@formula("torchvision._roi_pool_backward", "torchvision._ps_roi_pool_backward")
def roi_pool_backward(grad: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Each gradient added to its pixels: at least one addition."""
    return Cost(vector=grad.numel, formula="estimate")


def _columns(x: TensorSpec, weight: TensorSpec, height: int, width: int) -> int:
    """Elements sampled for the products: B·C_in·R·S·H·W."""
    return x.shape[0] * x.shape[1] * prod(weight.shape[2:]) * height * width


@formula("torchvision.deform_conv2d")
def deform_conv2d(
    x: TensorSpec,
    weight: TensorSpec,
    offset: TensorSpec,
    mask: TensorSpec,
    bias: TensorSpec,
    *args: Any,
    out: TensorSpec,
    **_: Any,
) -> Cost:
    """Deformable convolution: columns by bilinear sampling, then a grouped matmul. The columns are workspace."""
    use_mask = bool(args and args[-1])
    columns = _columns(x, weight, *out.shape[2:])
    return Cost(
        matrix=2 * out.numel * prod(weight.shape[1:]),
        vector=columns * (7 + use_mask) + out.numel,
        workspace_bytes=2 * columns * x.item_bytes,
    )


@formula("torchvision._deform_conv2d_backward")
def deform_conv2d_backward(
    grad: TensorSpec,
    x: TensorSpec,
    weight: TensorSpec,
    offset: TensorSpec,
    mask: TensorSpec,
    bias: TensorSpec,
    *args: Any,
    out: Any,
    **_: Any,
) -> Cost:
    """Two products of forward's size, for columns and weight; columns sampled again and spread back."""
    use_mask = bool(args and args[-1])
    columns = _columns(x, weight, *grad.shape[2:])
    return Cost(
        matrix=2 * 2 * grad.numel * prod(weight.shape[1:]),
        # Sampling again 7, into the image 8, into two offset coordinates 16; each with the mask.
        vector=columns * (31 + 3 * use_mask) + grad.numel,
        workspace_bytes=2 * 2 * columns * x.item_bytes,
    )
