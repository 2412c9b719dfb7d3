"""One look for all formats: a colour and a marker per bound, a colour per part of the time budget.

Colours are Okabe and Ito's, which stay apart for colour-blind eyes; markers keep bounds apart in greyscale.
"""

from typing import NamedTuple


class Look(NamedTuple):
    """How a bound is drawn.

    Attributes:
        label: Its name in a legend.
        colour: Hexadecimal RGB.
        marker: matplotlib's marker.
        symbol: plotly's marker.
        ansi: Its colour in a terminal, from the user's own theme.
    """

    label: str
    colour: str
    marker: str
    symbol: str
    ansi: str


BOUNDS = {
    "compute": Look("compute-bound", "#0072B2", "o", "circle", "bright_blue"),
    "memory": Look("memory-bound", "#E69F00", "s", "square", "yellow"),
    "network": Look("network-bound", "#009E73", "D", "diamond", "green"),
    "overhead": Look("overhead-bound", "#D55E00", "^", "triangle-up", "red"),
    "uncertain": Look("uncertain", "#CC79A7", "v", "triangle-down", "magenta"),
    "": Look("bound unknown", "#7F7F7F", "X", "x", "default"),
}

PARTS = {
    "compute": "#0072B2",
    "memory": "#E69F00",
    "inefficiency": "#D55E00",
    "network": "#009E73",
    "idle": "#A6A6A6",
}
ANSI_PARTS = {
    "compute": "bright_blue",
    "memory": "yellow",
    "inefficiency": "red",
    "network": "green",
    "idle": "bright_black",
}

STAR = "#C2185B"
