"""Rules against live calls: real modules, losses and optimizers, and PyTorch's own samples of every op."""

import sys
import unittest
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from torch import nn  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

from rule_checker import RuleChecker  # noqa: E402

IMAGE = (2, 4, 8, 8)
MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "batch norm": (lambda: nn.BatchNorm2d(4), IMAGE),
    "batch norm in evaluation": (lambda: nn.BatchNorm2d(4).eval(), IMAGE),
    "batch norm, bare": (lambda: nn.BatchNorm2d(4, affine=False, track_running_stats=False), IMAGE),
    "instance norm": (lambda: nn.InstanceNorm2d(4, affine=True), IMAGE),
    "group norm": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "layer norm": (lambda: nn.LayerNorm(8), IMAGE),
    "RMS norm": (lambda: nn.RMSNorm(8), IMAGE),
    "local response norm": (lambda: nn.LocalResponseNorm(3), IMAGE),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 3)), (2, 8)),
    "max pool": (lambda: nn.MaxPool2d(3, 2, 1), IMAGE),
    "max pool 1-d": (lambda: nn.MaxPool1d(2), (2, 4, 8)),
    "max pool 3-d": (lambda: nn.MaxPool3d(2), (1, 2, 4, 4, 4)),
    "average pool": (lambda: nn.AvgPool2d(2), IMAGE),
    "average pool 1-d": (lambda: nn.AvgPool1d(2), (2, 4, 8)),
    "average pool 3-d": (lambda: nn.AvgPool3d(2), (1, 2, 4, 4, 4)),
    "adaptive average": (lambda: nn.AdaptiveAvgPool2d(3), IMAGE),
    "adaptive average to one": (lambda: nn.AdaptiveAvgPool2d(1), IMAGE),
    "adaptive max": (lambda: nn.AdaptiveMaxPool2d(3), IMAGE),
    "fractional pool": (lambda: nn.FractionalMaxPool2d(2, 3), IMAGE),
    "lp pool": (lambda: nn.LPPool2d(2, 2), IMAGE),
    "upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "upsample nearest": (lambda: nn.Upsample(scale_factor=2), IMAGE),
    "upsample bicubic": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), IMAGE),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), IMAGE),
    "unfold": (lambda: nn.Unfold(3), IMAGE),
    "reflection": (lambda: nn.ReflectionPad2d(1), IMAGE),
    "replication": (lambda: nn.ReplicationPad2d(1), IMAGE),
    "zero pad": (lambda: nn.ZeroPad2d(1), IMAGE),
    "dropout": (lambda: nn.Dropout(0.5), IMAGE),
    "alpha dropout": (lambda: nn.AlphaDropout(0.5), IMAGE),
    "softmax": (lambda: nn.Softmax(-1), IMAGE),
    "log softmax": (lambda: nn.LogSoftmax(-1), IMAGE),
    "prelu": (lambda: nn.PReLU(4), IMAGE),
    "glu": (lambda: nn.GLU(1), IMAGE),
    "cosine similarity": (lambda: Paired(nn.CosineSimilarity(-1)), IMAGE),
}
ACTIVATIONS = [
    "ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Sigmoid", "Tanh", "Hardtanh",
    "Hardsigmoid", "Hardswish", "Hardshrink", "Softshrink", "Softplus", "Softsign", "Tanhshrink", "LogSigmoid",
    "RReLU",
]  # fmt: skip
LOSSES = [
    "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss",
    "SoftMarginLoss", "PoissonNLLLoss",
]  # fmt: skip
OPTIMIZERS = [
    "SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD",
    "Adafactor",
]  # fmt: skip


class Paired(nn.Module):
    """Applies a module of two arguments to a tensor and its double."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x, 2 * x)


def _run(module: nn.Module, shape: tuple[int, ...]) -> RuleChecker:
    x = torch.rand(shape, requires_grad=True)
    with RuleChecker() as checker:
        out = module(x)
        out.sum().backward()
    return checker


@pytest.mark.parametrize("name", MODULES)
def test_every_op_of_a_module_is_counted_forward_and_backward(name: str) -> None:
    make, shape = MODULES[name]
    checker = _run(make(), shape)
    assert (checker.unknown, checker.faults) == (set(), {})


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_op_of_an_activation_is_counted_forward_and_backward(name: str) -> None:
    checker = _run(getattr(nn, name)(), (3, 5))
    assert (checker.unknown, checker.faults) == (set(), {})
    counted = [cost.vector for op, cost in checker.costs if op not in ("aten.ones_like", "aten.sum", "aten.copy_")]
    assert sum(counted) > 0


@pytest.mark.parametrize("name", LOSSES)
def test_every_op_of_a_loss_is_counted_forward_and_backward(name: str) -> None:
    x, target = torch.rand(4, 5, requires_grad=True), torch.rand(4, 5)
    with RuleChecker() as checker:
        getattr(nn, name)(reduction="sum")(x, target).backward()
    assert (checker.unknown, checker.faults) == (set(), {})


def test_losses_over_classes_are_counted_forward_and_backward() -> None:
    scores, labels = torch.rand(4, 5, requires_grad=True), torch.tensor([0, 1, 2, 3])
    log_p = torch.rand(6, 2, 5).log_softmax(-1).requires_grad_()
    lengths = torch.tensor([6, 6]), torch.tensor([3, 2])
    with RuleChecker() as checker:
        nn.CrossEntropyLoss(label_smoothing=0.1)(scores, labels).backward()
        nn.NLLLoss(weight=torch.rand(5))(scores, labels).backward()
        nn.MultiMarginLoss()(scores, labels).backward()
        nn.MultiLabelMarginLoss()(scores, torch.tensor([[0, -1, 1, 1, 1]] * 4)).backward()
        nn.CTCLoss()(log_p, torch.tensor([[1, 2, 3], [1, 2, 0]]), *lengths).backward()
    assert (checker.unknown, checker.faults) == (set(), {})


FORMS = [
    *((name, {"foreach": False}) for name in OPTIMIZERS),
    *((name, {"foreach": True}) for name in OPTIMIZERS if name != "Adafactor"),
    *((name, {"fused": True}) for name in ("SGD", "Adam", "AdamW", "Adagrad")),
]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_every_op_of_an_optimizer_step_is_counted(name: str, form: dict[str, bool]) -> None:
    params = [nn.Parameter(torch.rand(3, 4)), nn.Parameter(torch.rand(4))]
    decay = {} if name == "Rprop" else {"weight_decay": 0.1}
    optimizer = getattr(torch.optim, name)(params, lr=0.1, **decay, **form)
    for p in params:
        p.grad = torch.rand_like(p)
    with RuleChecker() as checker:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    assert (checker.unknown, checker.faults) == (set(), {})
    assert sum(cost.vector for _, cost in checker.costs) >= 16


def test_fused_and_foreach_adamw_agree_on_the_work_of_a_step() -> None:
    """Per parameter and tensor; foreach spends two to four FLOP more, on divisions that the fused step folds."""
    per_parameter = {}
    for form in ("foreach", "fused"):
        p = nn.Parameter(torch.rand(1000))
        p.grad = torch.rand_like(p)
        optimizer = torch.optim.AdamW([p], weight_decay=0.1, **{form: True})
        optimizer.step()
        with RuleChecker() as checker:
            optimizer.step()
        per_parameter[form] = sum(cost.vector for _, cost in checker.costs) // 1000
    assert per_parameter["fused"] == 13 + 1
    # decay 1; lerp 3; β₂·v 1, + (1 − β₂)·g·g 3; √ 1, ÷ 1, + ε 1; addcdiv with a factor or a step 2–3
    assert 13 <= per_parameter["foreach"] <= 15


def test_embeddings_touch_rows_and_gradients_whole_tables() -> None:
    table = nn.Embedding(1000, 16)
    bag = nn.EmbeddingBag(1000, 16, mode="mean")
    index = torch.tensor([[1, 2, 3], [4, 5, 6]])
    with RuleChecker() as checker:
        (table(index).sum() + bag(index).sum()).backward()
    assert (checker.unknown, checker.faults) == (set(), {})
    reads = [cost.read for op, cost in checker.costs if op == "aten.embedding"]
    assert reads == [{0: 6 * 16 * 4}]


def test_detection_ops_are_counted_forward_and_backward() -> None:
    from torchvision import ops

    boxes = torch.tensor([[0.0, 0, 4, 4], [1, 1, 5, 5], [0, 0, 7, 7]])
    x = torch.rand(1, 4, 8, 8, requires_grad=True)
    offset = torch.rand(1, 18, 6, 6, requires_grad=True)
    weight = torch.rand(2, 4, 3, 3, requires_grad=True)
    with RuleChecker() as checker:
        ops.nms(boxes, torch.rand(3), 0.5)
        regions = [boxes]
        total = ops.roi_align(x, regions, (2, 2), sampling_ratio=2).sum() + ops.roi_pool(x, regions, (2, 2)).sum()
        total = total + ops.ps_roi_align(x, regions, 2).sum() + ops.ps_roi_pool(x, regions, 2).sum()
        (total + ops.deform_conv2d(x, offset, weight).sum()).backward()
    assert (checker.unknown, checker.faults) == (set(), {})


SAME = (
    "batch norm in evaluation",
    "layer norm",
    "max pool 1-d",
    "average pool 1-d",
    "adaptive average to one",
    "softmax",
)


@pytest.mark.parametrize("name", SAME)
def test_inference_mode_and_gradient_mode_count_the_same(name: str) -> None:
    make, shape = MODULES[name]
    module, x = make(), torch.rand(shape)
    totals = []
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
        with mode(), RuleChecker() as checker:
            module(x)
        totals.append(sum(cost.vector for _, cost in checker.costs))
    assert totals[0] == totals[1] == totals[2] > 0


def _op_db(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """PyTorch's list of ops with samples. Its module imports a test library that it needs for other things only."""
    stub = ModuleType("expecttest")
    stub.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "expecttest", stub)
    module = pytest.importorskip("torch.testing._internal.common_methods_invocations")
    # The jiterator compiles for GPUs only.
    return [op for op in module.op_db if not op.name.startswith("jiterator")]


def _samples(op: Any, dtype: Any, limit: int) -> Iterator[Any]:
    grad = dtype == torch.float32 and op.supports_autograd
    for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=grad)):
        if i == limit:
            return
        yield sample


def _exercise(op: Any, sample: Any, checker: RuleChecker) -> None:
    """Forward, in place, and backward of one sample. What PyTorch refuses on this machine is not our concern."""
    try:
        with checker:
            out = op(sample.input, *sample.args, **sample.kwargs)
            results = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
            if results:
                total = sum((t.abs() if t.is_complex() else t).sum() for t in results)
                leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
                inputs = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
                torch.autograd.grad(total, inputs, allow_unused=True)
            if op.inplace_variant and isinstance(sample.input, torch.Tensor):
                args = tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, sample.args)
                op.inplace_variant(sample.input.detach().clone(), *args, **sample.kwargs)
    except (RuntimeError, NotImplementedError, TypeError):
        pass


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_rule_breaks_on_any_sample_of_any_op_that_pytorch_tests_itself_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checker = RuleChecker()
    ops = _op_db(monkeypatch)
    for op in ops:
        for dtype in (torch.float32, torch.complex64, torch.int64):
            if dtype in op.supported_dtypes("cpu"):
                for sample in _samples(op, dtype, limit=8):
                    _exercise(op, sample, checker)
    assert len({name for name, _ in checker.costs}) > 500
    assert checker.faults == {}
    assert {name for name in checker.unknown if not name.startswith("torch_nn.")} == set()
