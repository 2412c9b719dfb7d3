"""Imports point one way, and torch stays behind its boundary."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "roofline"

# A room may import from those to its left, and from itself.
ORDER = [
    {"errors"},
    {"core"},
    {"machines", "formulas"},
    {"analysis"},
    {"plan"},
    {"audit"},
    {"counter", "clock", "targets"},
    {"pipeline", "api"},
    {"sweeps"},
    {"runners", "report"},
    {"cli"},
    {"__main__"},
]
# Within one level, a room may not import its neighbour, but for these.
NEIGHBOURS = {("targets", "counter"), ("api", "pipeline")}
MAY_IMPORT_TORCH = {"counter", "clock", "sweeps", "runners"}
# Convenience methods of the Run that hand it to the report, at the time of the call.
LATE = {("core", "report")}


def rooms() -> list[tuple[str, Path]]:
    return [
        (path.relative_to(SOURCE).parts[0].removesuffix(".py"), path)
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py" or path.parent != SOURCE
    ]


def imports(path: Path, *, module_level: bool) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if module_level else list(ast.walk(tree))
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def level(room: str) -> int:
    return next(i for i, names in enumerate(ORDER) if room in names)


@pytest.mark.parametrize(("room", "path"), rooms(), ids=lambda v: v.name if isinstance(v, Path) else v)
def test_imports_point_one_way(room: str, path: Path) -> None:
    for name in imports(path, module_level=False):
        parts = name.split(".")
        if parts[0] != "roofline" or len(parts) < 2 or parts[1] in (room, "__version__"):
            continue
        other = parts[1]
        allowed = level(other) < level(room) or (room, other) in NEIGHBOURS or (room, other) in LATE
        assert allowed, f"{path.relative_to(SOURCE)} imports {name}"


@pytest.mark.parametrize(("room", "path"), rooms(), ids=lambda v: v.name if isinstance(v, Path) else v)
def test_torch_stays_behind_its_boundary(room: str, path: Path) -> None:
    if room not in MAY_IMPORT_TORCH:
        loaded = {name.split(".")[0] for name in imports(path, module_level=True)}
        assert not {"torch", "torchvision", "transformers"} & loaded
