"""Dense linear algebra: the operation counts of the textbook algorithm, as matrix work, always an estimate.

Per matrix of a batch, A being n × n, or m × n with m ≥ n (else swap them), k right-hand sides; complex × 4:

| op | algorithm | FLOP |
|---|---|---|
| cholesky | | n³/3 |
| LU; det, slogdet | partial pivoting | m·n² − n³/3, ⅔·n³ when square |
| solve | LU, two triangular solves | ⅔·n³ + 2·n²·k |
| lu_solve, cholesky_solve, ldl_solve | two triangular solves | 2·n²·k |
| triangular solve | | n²·k |
| inverse | LU and substitution | 2·n³ |
| cholesky_inverse | | ⅔·n³ |
| LDL | | n³/3 |
| QR: R alone (geqrf) | Householder | 2·m·n² − ⅔·n³ |
| QR: and Q, reduced | as much again | 4·m·n² − 4/3·n³ |
| QR: and Q, complete | accumulate all m columns | R + 4·(m²·n − m·n² + n³/3) |
| householder_product, k reflectors | | 4·m·n·k − 2·(m + n)·k² + 4/3·k³ |
| ormqr, k reflectors on m × n | | 4·m·n·k − 2·n·k² |
| singular values | Golub–Reinsch | 4·m·n² − 4/3·n³ |
| SVD, reduced | Golub–Reinsch | 14·m·n² + 8·n³ |
| SVD, full | Golub–Reinsch | 4·m²·n + 8·m·n² + 9·n³ |
| eigenvalues, vectors too: symmetric | QR iteration | 4/3·n³, 9·n³ |
| eigenvalues, vectors too: general | Hessenberg QR | 10·n³, 25·n³ |
| lstsq | QR, Qᵀb, substitution | 2·m·n² − ⅔·n³ + (4·m·n − n²)·k |
| pinv | SVD, one product | 14·m·n² + 8·n³ + 2·m·n² |
| polar | SVD, two products | 14·m·n² + 8·n³ + 2·m·n² + 2·n³ |
| sqrt of a symmetric matrix | eigenvectors, one product | 11·n³ |

Bytes: inputs and results once. A blocked factorisation passes over the matrix several times; in cache it does not.
Not counted: pivoting.
Source: Golub and Van Loan, Matrix Computations, 4th ed., §3.2, 4.2, 5.2, 5.3, 7.5, 8.3, 8.6; LAPACK Working Note 41.
"""

from math import prod
from typing import Any

from roofline.formulas.arithmetic import arithmetic, aten, is_complex
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

COMPLEX_FACTOR = 4


def _estimate(a: TensorSpec, per_matrix: float) -> Cost:
    """So many FLOP for every matrix of the batch."""
    factor = COMPLEX_FACTOR if is_complex(a) else 1
    return Cost(matrix=factor * prod(a.shape[:-2]) * int(per_matrix), formula="estimate")


def _sides(a: TensorSpec) -> tuple[int, int]:
    """Longer and shorter side of a matrix."""
    return max(a.shape[-2:]), min(a.shape[-2:])


def _columns(a: TensorSpec, b: TensorSpec, *, left: bool = True) -> int:
    """Right-hand sides in b, for A·X = B or X·A = B; one where b is a batch of vectors."""
    if b.ndim < a.ndim or b.ndim == 1:
        return 1
    return b.shape[-1] if left else b.shape[-2]


def _lu(a: TensorSpec) -> float:
    m, n = _sides(a)
    return m * n**2 - n**3 / 3


def _qr(a: TensorSpec) -> float:
    m, n = _sides(a)
    return 2 * m * n**2 - 2 * n**3 / 3


def _svd(a: TensorSpec) -> float:
    m, n = _sides(a)
    return 14 * m * n**2 + 8 * n**3


@formula(*aten("linalg_cholesky_ex linalg_ldl_factor_ex"))
def cholesky(a: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Cholesky or LDL factor: n³/3."""
    return _estimate(a, a.shape[-1] ** 3 / 3)


@formula(*aten("linalg_lu linalg_lu_factor_ex _linalg_det _linalg_slogdet"))
def lu(a: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """LU with partial pivoting, and the determinant from it: ⅔·n³ for a square matrix."""
    return _estimate(a, _lu(a))


@formula(*aten("_linalg_solve_ex"))
def solve(a: TensorSpec, b: TensorSpec, *args: Any, out: Any, left: bool = True, **_: Any) -> Cost:
    """A·X = B: ⅔·n³ + 2·n²·k."""
    n = a.shape[-1]
    return _estimate(a, 2 * n**3 / 3 + 2 * n**2 * _columns(a, b, left=left))


@formula(*aten("linalg_lu_solve"))
def lu_solve(
    a: TensorSpec, pivots: TensorSpec, b: TensorSpec, *args: Any, out: Any, left: bool = True, **_: Any
) -> Cost:
    """Two triangular solves: 2·n²·k."""
    return _estimate(a, 2 * a.shape[-1] ** 2 * _columns(a, b, left=left))


@formula("aten.linalg_ldl_solve")
def ldl_solve(a: TensorSpec, pivots: TensorSpec, b: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Two triangular solves: 2·n²·k."""
    return _estimate(a, 2 * a.shape[-1] ** 2 * _columns(a, b))


@formula(*aten("cholesky_solve _cholesky_solve_helper"))
def cholesky_solve(b: TensorSpec, a: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Two triangular solves: 2·n²·k."""
    return _estimate(a, 2 * a.shape[-1] ** 2 * _columns(a, b))


@formula("aten.linalg_solve_triangular")
def solve_triangular(a: TensorSpec, b: TensorSpec, *args: Any, out: Any, left: bool = True, **_: Any) -> Cost:
    """One triangular solve: n²·k."""
    return _estimate(a, a.shape[-1] ** 2 * _columns(a, b, left=left))


@formula("aten.triangular_solve")
def triangular_solve(b: TensorSpec, a: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """One triangular solve: n²·k."""
    return _estimate(a, a.shape[-1] ** 2 * _columns(a, b))


@formula(*aten("linalg_inv_ex"))
def inverse(a: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Inverse: 2·n³."""
    return _estimate(a, 2 * a.shape[-1] ** 3)


@formula("aten.cholesky_inverse")
def cholesky_inverse(a: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Inverse from a Cholesky factor: ⅔·n³."""
    return _estimate(a, 2 * a.shape[-1] ** 3 / 3)


@formula("aten.geqrf")
def geqrf(a: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Householder vectors and R: 2·m·n² − ⅔·n³."""
    return _estimate(a, _qr(a))


@formula("aten.linalg_qr")
def qr(a: TensorSpec, mode: str = "reduced", *, out: Any, **_: Any) -> Cost:
    """R alone, with reduced Q, or with complete Q."""
    m, n = _sides(a)
    complete_q = 4 * (m**2 * n - m * n**2 + n**3 / 3)
    return _estimate(a, _qr(a) + {"r": 0, "reduced": _qr(a), "complete": complete_q}[mode])


@formula("aten.linalg_householder_product")
def householder_product(a: TensorSpec, tau: TensorSpec, *, out: TensorSpec, **_: Any) -> Cost:
    """Product of k reflectors, m × n: 4·m·n·k − 2·(m + n)·k² + 4/3·k³."""
    m, n = a.shape[-2:]
    k = tau.shape[-1]
    return _estimate(a, 4 * m * n * k - 2 * (m + n) * k**2 + 4 * k**3 / 3)


@formula("aten.ormqr")
def ormqr(
    a: TensorSpec, tau: TensorSpec, c: TensorSpec, left: bool = True, *args: Any, out: TensorSpec, **_: Any
) -> Cost:
    """K reflectors applied to an m × n matrix: 4·m·n·k − 2·n·k²."""
    m, n = c.shape[-2:] if left else c.shape[-2:][::-1]
    k = tau.shape[-1]
    return _estimate(a, 4 * m * n * k - 2 * n * k**2)


@formula("aten._linalg_svd")
def svd(a: TensorSpec, full_matrices: bool = False, compute_uv: bool = True, *args: Any, out: Any, **_: Any) -> Cost:
    """Singular values alone, reduced, or with full matrices."""
    m, n = _sides(a)
    if not compute_uv:
        return _estimate(a, 4 * m * n**2 - 4 * n**3 / 3)
    return _estimate(a, 4 * m**2 * n + 8 * m * n**2 + 9 * n**3 if full_matrices else _svd(a))


@formula("aten._linalg_eigh")
def eigh(a: TensorSpec, uplo: str = "L", compute_v: bool = True, *, out: Any, **_: Any) -> Cost:
    """Symmetric eigenvalues 4/3·n³, with vectors 9·n³."""
    return _estimate(a, (9 if compute_v else 4 / 3) * a.shape[-1] ** 3)


@formula("aten.linalg_eig")
def eig(a: TensorSpec, *, out: Any, **_: Any) -> Cost:
    """Eigenvalues and vectors of a general matrix: 25·n³."""
    return _estimate(a, 25 * a.shape[-1] ** 3)


@formula(*aten("linalg_eigvals _linalg_eigvals"))
def eigvals(a: TensorSpec, *, out: Any, **_: Any) -> Cost:
    """Eigenvalues of a general matrix: 10·n³."""
    return _estimate(a, 10 * a.shape[-1] ** 3)


@formula("aten.linalg_lstsq")
def lstsq(a: TensorSpec, b: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Least squares by QR: 2·m·n² − ⅔·n³ + (4·m·n − n²)·k."""
    m, n = _sides(a)
    return _estimate(a, _qr(a) + (4 * m * n - n**2) * _columns(a, b))


@formula("aten.linalg_pinv")
def pinv(a: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Pseudo-inverse by SVD, and one product."""
    m, n = _sides(a)
    return _estimate(a, _svd(a) + 2 * m * n**2)


@formula("aten.linalg_polar")
def polar(a: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Polar decomposition by SVD, and two products."""
    m, n = _sides(a)
    return _estimate(a, _svd(a) + 2 * m * n**2 + 2 * n**3)


@formula("aten.linalg_matrix_sqrth")
def matrix_sqrt(a: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Root of a symmetric matrix by its eigenvectors: 11·n³."""
    return _estimate(a, 11 * a.shape[-1] ** 3)


@formula("aten.linalg_cross")
def cross(a: TensorSpec, b: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Cross product: two products and a subtraction per component, vector work."""
    return Cost(vector=out.numel * arithmetic(out, 3, 2 * 6 + 2))
