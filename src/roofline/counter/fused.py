"""Bytes of the fused graph (origin `fused`), from TorchInductor's own accounting of what it emits."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch._inductor.config
from torch._inductor.graph import GraphLowering


class FusedBytes:
    """Adds up what the graphs compiled inside `watching` read and write.

    Attributes:
        graphs: How many graphs were compiled.
        total: Bytes that their fused kernels read and write; a buffer that stays inside a kernel counts nothing.
    """

    def __init__(self) -> None:
        self.graphs = 0
        self.total = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count graphs compiled in the block. Inductor's caches are off there: a cached graph is not accounted."""
        compile_graph = GraphLowering.compile_to_module

        def counted(graph: GraphLowering) -> object:
            module = compile_graph(graph)
            self.graphs += 1
            self.total += float(graph.count_bytes()[0])
            return module

        with (
            patch.object(GraphLowering, "compile_to_module", counted),
            torch._inductor.config.patch(force_disable_caches=True),
        ):
            yield
