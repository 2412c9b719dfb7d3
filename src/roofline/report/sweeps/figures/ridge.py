"""The ridge point by GPU generation: it moves right with every narrower format, and not with every generation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline.core.precision import Precision
from roofline.core.units import show
from roofline.report.sweeps.figures import style
from roofline.report.sweeps.figures.labels import Labels
from roofline.sweeps.article import GENERATIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FORMATS = ((Precision.FP16, "FP16, BF16"), (Precision.FP8, "FP8"), (Precision.FP4, "FP4"))


def ridge(keys: Sequence[str] = GENERATIONS) -> "Figure":
    """Draw the dense ridge points of machines of the database, and what moved them."""
    from roofline import machines

    found = [machines.resolve(key) for key in keys]
    names = [m.name.removeprefix("NVIDIA ") for m in found]
    figure, (left, right) = style.new_figure("The ridge point by generation (dense datasheet peaks)", 2, width=12)
    numbers: dict[Axes, list[tuple[str, float, float]]] = {left: [], right: []}
    for i, (precision, label) in enumerate(_FORMATS):
        at = [(x, m.ridge_point(precision)) for x, m in enumerate(found) if precision in m.matrix]
        if not at:
            continue
        style.plot(
            left,
            *zip(*at, strict=True),
            color=style.COLOURS[i],
            marker=style.MARKERS[i],
            markersize=8,
            markeredgecolor="black",
            label=label,
        )
        numbers[left] += [(f"{value:.0f}", x, value) for x, value in at]
    first = found[0]
    for i, (label, ratios) in enumerate(
        (
            (
                "FP16 rate",
                [m.matrix_peak(Precision.FP16).value / first.matrix_peak(Precision.FP16).value for m in found],
            ),
            ("memory bandwidth", [m.dram.value / first.dram.value for m in found]),
        )
    ):
        style.plot(
            right,
            range(len(found)),
            ratios,
            color=style.COLOURS[i + 3],
            marker=style.MARKERS[i + 3],
            markersize=8,
            markeredgecolor="black",
            label=label,
        )
        numbers[right] += [(f"{show(value, '')}×", x, value) for x, value in enumerate(ratios)]
    for axes, label in ((left, "ridge point (FLOP/B)"), (right, f"times {names[0]}")):
        axes.set_xticks(range(len(found)), names, fontsize=8)
        axes.set_ylabel(label)
        axes.margins(x=0.08, y=0.1)
        axes.set_ylim(bottom=0)
        style.key(axes, loc="upper left")
    for axes, named in numbers.items():
        labels = Labels(axes)
        labels.avoid_lines()
        labels.avoid_legend()
        for text, x, y in dict.fromkeys(named):
            labels.near(text, x, y, fontsize=8)
    return figure
