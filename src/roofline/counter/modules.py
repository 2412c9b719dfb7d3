"""Where an op runs: the stack of modules being called, in forward, recomputation and backward.

Backward has no module calls. Each autograd node carries the sequence number of the forward op that made it, so
noting the number at every module entry and exit tells whose backward a node computes.
"""

import warnings
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from roofline.counter.leaf_io import LeafIO

# Nodes without a place in the forward order (gradient accumulation) carry the largest number.
_NO_SEQUENCE = 2**63


# Names under which torch's wrappers hold the module that they wrap.
_WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module")


class ModuleTracker:
    """Follows module calls by global hooks, which leave the fast paths of fused modules on.

    Attributes:
        kinds: Class name by module path.
        calls: Forward calls by module path, recomputation not included.
        leaf_io: Bytes at the boundary of leaf modules.
    """

    def __init__(self, root: nn.Module | None) -> None:
        self.kinds: dict[str, str] = {}
        self.calls: dict[str, int] = {}
        self.leaf_io = LeafIO()
        self._root = root
        self._stack: list[tuple[nn.Module, str]] = []
        self._children: dict[int, dict[int, str]] = {}
        self._top_level: dict[int, str] = {}
        self._kept: list[nn.Module] = []
        self._marks: list[int] = [0]
        self._paths: list[str] = [""]
        self._last_backward = ""

    @contextmanager
    def tracking(self) -> Iterator[None]:
        """Follow module calls inside the block."""
        entry = register_module_forward_pre_hook(self._enter)
        leave = register_module_forward_hook(self._leave, always_call=True)
        try:
            with warnings.catch_warnings():
                # A compiled module fires global hooks for its wrapper too; both have one path here.
                warnings.filterwarnings("ignore", message="Using `torch.compile")
                yield
        finally:
            entry.remove()
            leave.remove()

    def current(self) -> str:
        """Path of the module that the op now dispatched belongs to; "" outside any."""
        node = torch._C._current_autograd_node()
        if node is None or self._stack:
            return self._stack[-1][1] if self._stack else ""
        sequence = node._sequence_nr()
        if sequence < _NO_SEQUENCE:
            self._last_backward = self._paths[bisect_right(self._marks, sequence) - 1]
        return self._last_backward

    def _enter(self, module: nn.Module, args: Any) -> None:
        path = self._path(module)
        wrapped = bool(self._stack) and self._stack[-1][1] == path
        self._stack.append((module, path))
        if wrapped:
            self.kinds[path] = type(module).__name__
            return
        self.kinds.setdefault(path, type(module).__name__)
        if torch._C._current_graph_task_id() == -1:
            self.calls[path] = self.calls.get(path, 0) + 1
        self._mark(path)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        # A module that raised leaves its children's entries behind; unwind to its own.
        while self._stack:
            inner, _ = self._stack.pop()
            if inner is module:
                break
        self._mark(self._stack[-1][1] if self._stack else "")
        self.leaf_io.add(module, args, output)

    def _mark(self, path: str) -> None:
        if torch._C._current_graph_task_id() == -1:
            self._marks.append(torch._C._autograd._get_sequence_nr())
            self._paths.append(path)

    def _path(self, module: nn.Module) -> str:
        """Name the module by the way it is called: its parent's path and its name in the parent."""
        for parent, parent_path in reversed(self._stack):
            name = self._names_below(parent).get(id(module))
            if name is not None:
                return ".".join(filter(None, (parent_path, name)))
        if module is self._root:
            return ""
        if self._root is not None and (name := self._names_below(self._root).get(id(module))) is not None:
            return name
        return self._top_level_name(module)

    def _names_below(self, parent: nn.Module) -> dict[int, str]:
        if id(parent) not in self._children:
            self._kept.append(parent)
            names: dict[int, str] = {}
            for name, child in parent.named_modules(remove_duplicate=False):
                names.setdefault(id(child), ".".join(p for p in name.split(".") if p not in _WRAPPERS))
            self._children[id(parent)] = names
        return self._children[id(parent)]

    def _top_level_name(self, module: nn.Module) -> str:
        """Name a module that no other one holds by its class, numbered from the second on."""
        if id(module) not in self._top_level:
            self._kept.append(module)
            kind = type(module).__name__
            same = sum(name.split("#")[0] == kind for name in self._top_level.values())
            self._top_level[id(module)] = f"{kind}#{same + 1}" if same else kind
        return self._top_level[id(module)]
