"""The ops of the sweep: work in closed form, and the step that runs it.

Per element: GELU 5 FLOP (erf form), softmax 5, layer norm 8, RMS norm 4, dropout 2, AdamW 14; see `formulas`.
"""

from collections.abc import Callable
from math import sqrt
from typing import Any

from roofline.core.precision import Precision
from roofline.sweeps.ops import Op, Part

Step = Callable[[], Any]
# Rows of norms, softmax and embeddings: the width of a 7 B language model.
WIDTH = 4096
VOCABULARY = 32_000
HEADS, HEAD_DIM = 16, 64
CHANNELS, SIDE = 64, 56
BMM_BATCH = 32
_VECTOR_SMALL = (1 << 18, 1 << 20, 1 << 22, 1 << 24)
_VECTOR_ARTICLE = (1 << 20, 1 << 22, 1 << 24, 1 << 26)
_ROWS_SMALL = (256, 2048)
_ROWS_ARTICLE = (1024, 8192, 32768)


def _random(*shape: int, dtype: Any, device: str) -> Any:
    import torch

    return torch.randn(*shape, dtype=dtype, device=device)


def _elementwise(name: str, flops: int, tensors: int) -> Callable[[int, float], list[Part]]:
    return lambda n, s: [Part(name, 0, flops * n, tensors * n * s)]


def _rows(name: str, flops: int, weights: int) -> Callable[[int, float], list[Part]]:
    """Per row of WIDTH elements: read and write it; the weights once."""
    return lambda n, s: [Part(name, 0, flops * n * WIDTH, (2 * n * WIDTH + weights * WIDTH) * s)]


def _gemm(m: int | None) -> Callable[[int, float], list[Part]]:
    """An m x n times n x n product; m = n where None."""

    def work(n: int, s: float) -> list[Part]:
        rows = m or n
        return [Part("matmul", 2 * rows * n * n, 0, (2 * rows * n + n * n) * s, f"{rows}x{n}, {n}x{n}")]

    return work


def _bmm_work(n: int, s: float) -> list[Part]:
    shape = f"{BMM_BATCH}x{n}x{n}"
    return [Part("matmul", 2 * BMM_BATCH * n**3, 0, 3 * BMM_BATCH * n * n * s, f"{shape}, {shape}")]


def _add(n: int, dtype: Any, device: str) -> Step:
    a, b = _random(n, dtype=dtype, device=device), _random(n, dtype=dtype, device=device)
    return lambda: a + b


def _gelu(n: int, dtype: Any, device: str) -> Step:
    from torch.nn import functional

    x = _random(n, dtype=dtype, device=device)
    return lambda: functional.gelu(x)


def _dropout(n: int, dtype: Any, device: str) -> Step:
    from torch.nn import functional

    x = _random(n, dtype=dtype, device=device)
    return lambda: functional.dropout(x, 0.1, training=True)


def _layer_norm(n: int, dtype: Any, device: str) -> Step:
    from torch.nn import functional

    x = _random(n, WIDTH, dtype=dtype, device=device)
    w, b = _random(WIDTH, dtype=dtype, device=device), _random(WIDTH, dtype=dtype, device=device)
    return lambda: functional.layer_norm(x, (WIDTH,), w, b)


def _rms_norm(n: int, dtype: Any, device: str) -> Step:
    from torch.nn import functional

    x, w = _random(n, WIDTH, dtype=dtype, device=device), _random(WIDTH, dtype=dtype, device=device)
    return lambda: functional.rms_norm(x, (WIDTH,), w)


def _softmax(n: int, dtype: Any, device: str) -> Step:
    x = _random(n, WIDTH, dtype=dtype, device=device)
    return lambda: x.softmax(-1)


def _embedding(n: int, dtype: Any, device: str) -> Step:
    import torch
    from torch.nn import functional

    table = _random(VOCABULARY, WIDTH, dtype=dtype, device=device)
    ids = torch.randint(0, VOCABULARY, (n,), device=device)
    return lambda: functional.embedding(ids, table)


def _sum(n: int, dtype: Any, device: str) -> Step:
    x = _random(n, dtype=dtype, device=device)
    return lambda: x.sum()


def _transpose(n: int, dtype: Any, device: str) -> Step:
    x = _random(n, n, dtype=dtype, device=device)
    return lambda: x.t().contiguous()


def _product(m: int | None) -> Callable[[int, Any, str], Step]:
    def build(n: int, dtype: Any, device: str) -> Step:
        a, b = _random(m or n, n, dtype=dtype, device=device), _random(n, n, dtype=dtype, device=device)
        return lambda: a @ b

    return build


def _bmm(n: int, dtype: Any, device: str) -> Step:
    a = _random(BMM_BATCH, n, n, dtype=dtype, device=device)
    b = _random(BMM_BATCH, n, n, dtype=dtype, device=device)
    return lambda: a @ b


def _conv(groups: int) -> Callable[[int, Any, str], Step]:
    def build(n: int, dtype: Any, device: str) -> Step:
        from torch.nn import functional

        x = _random(n, CHANNELS, SIDE, SIDE, dtype=dtype, device=device)
        w = _random(CHANNELS, CHANNELS // groups, 3, 3, dtype=dtype, device=device)
        return lambda: functional.conv2d(x, w, padding=1, groups=groups)

    return build


def _conv_work(groups: int) -> Callable[[int, float], list[Part]]:
    def work(n: int, s: float) -> list[Part]:
        image = n * CHANNELS * SIDE * SIDE
        weights = CHANNELS * (CHANNELS // groups) * 9
        return [Part("conv", 2 * image * (CHANNELS // groups) * 9, 0, (2 * image + weights) * s)]

    return work


def _qkv(n: int, dtype: Any, device: str) -> tuple[Any, Any, Any]:
    q, k, v = (_random(1, HEADS, n, HEAD_DIM, dtype=dtype, device=device) for _ in range(3))
    return q, k, v


def _math_attention(n: int, dtype: Any, device: str) -> Step:
    q, k, v = _qkv(n, dtype, device)
    scale = 1 / sqrt(HEAD_DIM)
    return lambda: (q @ k.transpose(-1, -2) * scale).softmax(-1) @ v


def _fused_attention(n: int, dtype: Any, device: str) -> Step:
    from torch.nn import functional

    q, k, v = _qkv(n, dtype, device)
    return lambda: functional.scaled_dot_product_attention(q, k, v)


def _math_work(n: int, s: float) -> list[Part]:
    """Scores are written and read by every kernel in between: O(n²) bytes."""
    scores, heads = HEADS * n * n, HEADS * n * HEAD_DIM
    return [
        Part("q·kᵀ", 2 * scores * HEAD_DIM, 0, (2 * heads + scores) * s),
        Part("scale", 0, scores, 2 * scores * s),
        Part("softmax", 0, 5 * scores, 2 * scores * s),
        Part("scores·v", 2 * scores * HEAD_DIM, 0, (2 * heads + scores) * s),
    ]


def _fused_work(n: int, s: float) -> list[Part]:
    """The same products; scores stay on the chip: O(n) bytes."""
    scores, heads = HEADS * n * n, HEADS * n * HEAD_DIM
    return [Part("attention", 4 * scores * HEAD_DIM, 5 * scores, 4 * heads * s)]


def _adamw(n: int, dtype: Any, device: str) -> Step:
    import torch

    p = torch.nn.Parameter(_random(n, dtype=dtype, device=device))
    p.grad = _random(n, dtype=dtype, device=device)
    return torch.optim.AdamW([p], fused=True).step


OPS = (
    Op("add", "elements", "1/(3s)", _VECTOR_SMALL, _VECTOR_ARTICLE, _elementwise("add", 1, 3), _add),
    Op("gelu", "elements", "5/(2s)", _VECTOR_SMALL[1:], _VECTOR_ARTICLE, _elementwise("gelu", 5, 2), _gelu),
    Op(
        "dropout",
        "elements",
        "2n/(n(2s+1))",
        _VECTOR_SMALL[1:],
        _VECTOR_ARTICLE,
        lambda n, s: [Part("dropout", 0, 2 * n, n * (2 * s + 1))],
        _dropout,
    ),
    Op("layer_norm", "rows of 4096", "8/(2s)", _ROWS_SMALL, _ROWS_ARTICLE, _rows("layer norm", 8, 2), _layer_norm),
    Op("rms_norm", "rows of 4096", "4/(2s)", _ROWS_SMALL, _ROWS_ARTICLE, _rows("RMS norm", 4, 1), _rms_norm),
    Op("softmax", "rows of 4096", "5/(2s)", _ROWS_SMALL, _ROWS_ARTICLE, _rows("softmax", 5, 0), _softmax),
    Op(
        "embedding",
        "rows of 4096",
        "0",
        _ROWS_SMALL,
        _ROWS_ARTICLE,
        lambda n, s: [Part("embedding", 0, 0, n * (2 * WIDTH * s + 8))],
        _embedding,
    ),
    Op(
        "sum",
        "elements",
        "1/s",
        _VECTOR_SMALL[1:],
        _VECTOR_ARTICLE,
        lambda n, s: [Part("sum", 0, n, (n + 1) * s)],
        _sum,
    ),
    Op(
        "transposed_copy",
        "N",
        "0",
        (1024, 4096),
        (4096, 8192),
        lambda n, s: [Part("copy", 0, 0, 2 * n * n * s)],
        _transpose,
    ),
    Op("gemv", "N (M = 1)", "2n²/((n²+2n)s)", (2048, 4096), (4096, 8192, 16384), _gemm(1), _product(1)),
    Op("gemm_m8", "N (M = 8)", "16n²/((n²+16n)s)", (2048, 4096), (4096, 8192, 16384), _gemm(8), _product(8)),
    Op("gemm_m64", "N (M = 64)", "128n²/((n²+128n)s)", (2048, 4096), (4096, 8192, 16384), _gemm(64), _product(64)),
    Op(
        "gemm",
        "N",
        "2n/(3s)",
        (64, 128, 256, 512, 1024, 2048),
        (256, 512, 1024, 2048, 4096, 8192),
        _gemm(None),
        _product(None),
    ),
    Op(
        "bmm",
        "N, 32 matrices",
        "2n/(3s)",
        (64, 256),
        (64, 256, 1024),
        _bmm_work,
        _bmm,
    ),
    Op(
        "conv3x3",
        "images of 64×56×56",
        "18·64/(2s) nearly",
        (1, 8),
        (8, 64, 256),
        _conv_work(1),
        _conv(1),
    ),
    Op(
        "depthwise",
        "images of 64×56×56",
        "18/(2s) nearly",
        (1, 8),
        (8, 64, 256),
        _conv_work(CHANNELS),
        _conv(CHANNELS),
    ),
    Op(
        "attention_math",
        "tokens",
        "256n/((6n+256)s)",
        (512, 1024),
        (1024, 2048, 4096, 8192),
        _math_work,
        _math_attention,
    ),
    Op("attention_fused", "tokens", "n/s", (512, 1024), (1024, 2048, 4096, 8192), _fused_work, _fused_attention),
    Op(
        "adamw",
        "parameters",
        "14/28",
        _VECTOR_SMALL[1:],
        _VECTOR_ARTICLE,
        lambda n, s: [Part("AdamW", 0, 14 * n, 28 * n)],
        _adamw,
        Precision.FP32,
    ),
)
