"""Runs to report on, built by hand: a measured ResNet-50, one only counted, and every odd kind."""

from itertools import count

from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound, averaging_honesty, roof_time
from roofline.core.run import (
    Advice,
    Bytes,
    Coverage,
    Flops,
    ModuleTotal,
    OpBytes,
    OpRecord,
    Run,
    TimeBudget,
    Timing,
    UnknownOp,
    Verdict,
)

BATCH = 64

GPU = Machine(
    key="test-gpu",
    name="Test GPU 80GB",
    vendor="Test",
    matrix={
        Precision.BF16: Ceiling(989.5e12, "datasheet"),
        Precision.FP16: Ceiling(989.5e12, "datasheet"),
        Precision.TF32: Ceiling(494.7e12, "datasheet"),
    },
    vector={Precision.FP32: Ceiling(66.9e12, "datasheet")},
    bandwidth={
        "dram": Ceiling(3.35e12, "datasheet"),
        "l2": Ceiling(7.1e12, "measured", "read of 20 MB, median of 50"),
        "nvlink": Ceiling(450e9, "datasheet"),
    },
    launch_s=Ceiling(4.1e-6, "measured", "empty kernel, median of 1000"),
    memory_bytes=80 * 2**30,
    cache_bytes={"l2": 50 * 2**20},
    source="the vendor's datasheet",
    read_on="2025-01-01",
)

CPU = Machine(
    key="test-cpu",
    name="Test CPU, 2 cores",
    kind="cpu",
    matrix={
        Precision.FP32: Ceiling(
            118e9,
            "measured",
            "GEMM 2048",
        )
    },
    vector={Precision.FP32: Ceiling(64e9, "measured", "a·x + y in cache")},
    bandwidth={"dram": Ceiling(11.3e9, "measured", "triad"), "l3": Ceiling(68e9, "measured", "read of 8 MB")},
    source="calibrated here",
)


def _op(machine: Machine, seconds_factor: float | None, **fields: object) -> OpRecord:
    op = OpRecord(**fields)
    roof = roof_time(op.work(), machine)
    seconds = None if seconds_factor is None else roof.total_s * seconds_factor + 2e-6
    return OpRecord(
        **fields,
        seconds=seconds,
        roof_s=roof.total_s or None,
        bound=roof.bound if roof.total_s else None,
        efficiency_fraction=roof.total_s / seconds if seconds and roof.total_s else None,
    )


def resnet_ops(
    machine: Machine = GPU, *, timed: bool = True, precision: Precision = Precision.BF16
) -> list[OpRecord]:
    """The 175 op rows of ResNet-50 inference."""
    ops, wobble, item = [], count(), 2 if precision == Precision.BF16 else 4

    def slow(base: float) -> float | None:
        return base * (1 + 0.37 * (next(wobble) % 7)) if timed else None

    def conv(module: str, cin: int, cout: int, k: int, size: int, stride: int = 1) -> None:
        out = size // stride
        flops = 2 * BATCH * cout * out * out * cin * k * k
        moved = item * (BATCH * cin * size * size + cout * cin * k * k + BATCH * cout * out * out)
        add(
            "aten.convolution.default",
            module,
            slow(1.6),
            f"{BATCH}x{cin}x{size}x{size}, {cout}x{cin}x{k}x{k}",
            moved,
            flops,
            0,
        )

    def pointwise(name: str, module: str, channels: int, size: int, flop: int, passes: int) -> None:
        n = BATCH * channels * size * size
        add(name, module, slow(1.15), f"{BATCH}x{channels}x{size}x{size}", n * item * passes, 0, n * flop)

    def add(
        name: str, module: str, factor: float | None, shapes: str, moved: float, matrix: float, vector: float
    ) -> None:
        ops.append(
            _op(
                machine,
                factor,
                name=name,
                module=module,
                calls=1,
                shapes=shapes,
                precision=precision,
                engine="matrix" if matrix else "vector" if vector else None,
                needed_flops=matrix,
                executed_flops=matrix,
                vector_flops=vector,
                bytes=OpBytes(operator=moved, cached=moved * 0.8 if moved < 40e6 else moved),
            )
        )

    add("aten._to_copy.default", "", slow(1.2), f"{BATCH}x3x224x224", BATCH * 3 * 224 * 224 * (4 + item), 0, 0)
    conv("conv1", 3, 64, 7, 224, 2)
    pointwise("aten._native_batch_norm_legit_no_training.default", "bn1", 64, 112, 2, 2)
    pointwise("aten.relu_.default", "relu", 64, 112, 1, 2)
    pointwise("aten.max_pool2d_with_indices.default", "maxpool", 64, 56, 9, 5)
    size, cin = 56, 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        for block in range(blocks):
            at, stride = f"layer{stage}.{block}", 2 if block == 0 and stage > 1 else 1
            conv(f"{at}.conv1", cin, width, 1, size)
            pointwise("aten._native_batch_norm_legit_no_training.default", f"{at}.bn1", width, size, 2, 2)
            pointwise("aten.relu_.default", f"{at}.relu", width, size, 1, 2)
            conv(f"{at}.conv2", width, width, 3, size, stride)
            out = size // stride
            pointwise("aten._native_batch_norm_legit_no_training.default", f"{at}.bn2", width, out, 2, 2)
            pointwise("aten.relu_.default", f"{at}.relu", width, out, 1, 2)
            conv(f"{at}.conv3", width, 4 * width, 1, out)
            pointwise("aten._native_batch_norm_legit_no_training.default", f"{at}.bn3", 4 * width, out, 2, 2)
            if block == 0:
                conv(f"{at}.downsample.0", cin, 4 * width, 1, size, stride)
                pointwise(
                    "aten._native_batch_norm_legit_no_training.default", f"{at}.downsample.1", 4 * width, out, 2, 2
                )
            pointwise("aten.add_.Tensor", at, 4 * width, out, 1, 3)
            pointwise("aten.relu_.default", f"{at}.relu", 4 * width, out, 1, 2)
            size, cin = out, 4 * width
    pointwise("aten.mean.dim", "avgpool", 2048, 7, 1, 1)
    fc = item * (BATCH * 2048 + 2048 * 1000 + BATCH * 1000)
    add("aten.addmm.default", "fc", slow(3), f"1000, {BATCH}x2048, 2048x1000", fc, 2 * BATCH * 2048 * 1000, 0)
    return ops


def resnet(machine: Machine = GPU, *, precision: Precision = Precision.BF16) -> Run:
    """ResNet-50, measured and judged."""
    ops = resnet_ops(machine, precision=precision)
    busy = sum(op.seconds for op in ops)
    roofs = {b: sum(op.roof_s for op in ops if op.bound == b) for b in (Bound.COMPUTE, Bound.MEMORY)}
    wall = busy * 1.12
    verdict = _verdict(ops, machine, precision, wall)
    budget = TimeBudget(
        wall_s=wall,
        compute_s=roofs[Bound.COMPUTE],
        memory_s=roofs[Bound.MEMORY],
        inefficiency_s=busy - sum(roofs.values()),
        network_s=0.0,
        idle_s=wall - busy,
    )
    return Run(
        kind="measured",
        workload={
            "target": "torchvision:resnet50",
            "batch": BATCH,
            "train": False,
            "precision": precision.value,
            "device": "cuda",
        },
        machine=machine,
        environment={"torch": "2.14.1", "python": "3.11.9", "threads": 2, "date": "2025-01-01", "driver": None},
        flops=_flops(ops, precision),
        bytes=_bytes(ops),
        timing=Timing(
            median_s=wall, samples_s=(wall,) * 50, spread_fraction=0.012, stable=True, warmup_s=1.0, compile_s=None
        ),
        verdict=verdict,
        time_budget=budget,
        ops=tuple(ops),
        modules=modules(ops),
        advice=(
            Advice(
                action="Fuse elementwise ops into the convolutions (torch.compile)",
                saves_at_most_s=0.3 * wall,
                evidence="121 memory-bound elementwise rows take 61 % of op time",
            ),
            Advice(
                action="Use channels-last memory format",
                saves_at_most_s=0.16 * wall,
                evidence="53 convolutions run at 42 % of their roof",
            ),
            Advice(
                action="Capture the step in a CUDA graph",
                saves_at_most_s=budget.idle_s,
                evidence="the device is idle for 10.7 % of the step",
            ),
        ),
        warnings=("clocks were not locked: the peak may differ by up to 5 %",),
    )


def _verdict(ops: list[OpRecord], machine: Machine, precision: Precision, wall: float | None) -> Verdict:
    executed = sum(op.executed_flops for op in ops)
    moved = sum(op.bytes.best for op in ops)
    roof_s = sum(op.roof_s or 0 for op in ops)
    mfu = executed / wall / machine.matrix_peak(precision).value if wall else None
    return Verdict(
        bound=Bound.MEMORY,
        certain=True,
        mfu_fraction=mfu,
        hfu_fraction=mfu,
        mbu_fraction=moved / wall / machine.dram.value if wall else None,
        bytes_origin="cached",
        intensity_flops_per_byte=executed / moved,
        ridge_point_flops_per_byte=machine.ridge_point(precision),
        precision=precision,
        roof_s=roof_s,
        efficiency_fraction=roof_s / wall if wall else None,
        averaging_honesty_fraction=averaging_honesty([op.work() for op in ops], machine),
        sentence="Memory-bound: most of the step moves activations through memory at 62 % of its roof; "
        "fusing them away is worth more than any faster matrix engine.",
    )


def _flops(ops: list[OpRecord], precision: Precision) -> Flops:
    executed = sum(op.executed_flops for op in ops)
    vector = sum(op.vector_flops for op in ops)
    return Flops(needed=executed, executed=executed, vector=vector, by_precision={precision: executed})


def _bytes(ops: list[OpRecord]) -> Bytes:
    operator = sum(op.bytes.operator for op in ops)
    return Bytes(
        compulsory=operator / 55, cached=sum(op.bytes.cached for op in ops), operator=operator, module=operator * 0.9
    )


def modules(ops: list[OpRecord]) -> tuple[ModuleTotal, ...]:
    """Totals of every module on the way to an op."""
    paths: dict[str, list[OpRecord]] = {}
    for op in ops:
        parts = op.module.split(".") if op.module else []
        for n in range(len(parts) + 1):
            paths.setdefault(".".join(parts[:n]), []).append(op)
    return tuple(
        ModuleTotal(
            path=path,
            kind="ResNet" if not path else "Block",
            calls=1,
            needed_flops=sum(o.needed_flops for o in own),
            executed_flops=sum(o.executed_flops for o in own),
            vector_flops=sum(o.vector_flops for o in own),
            operator_bytes=sum(o.bytes.operator or 0 for o in own),
            seconds=sum(o.seconds or 0 for o in own) if any(o.seconds is not None for o in own) else None,
        )
        for path, own in paths.items()
    )


def counted() -> Run:
    """ResNet-50, counted only: no time, no budget."""
    ops = resnet_ops(timed=False)
    return Run(
        kind="counted",
        workload={"target": "torchvision:resnet50", "batch": BATCH, "train": False, "precision": "bf16"},
        machine=GPU,
        flops=_flops(ops, Precision.BF16),
        bytes=_bytes(ops),
        verdict=_verdict(ops, GPU, Precision.BF16, None),
        ops=tuple(ops),
        modules=modules(ops),
    )


def empty() -> Run:
    """Nothing is known."""
    return Run(kind="counted", workload={}, flops=Flops(needed=0, executed=0, vector=0), bytes=Bytes())


def unjudged() -> Run:
    """Counted without a machine: work, but no roof."""
    ops = tuple(
        OpRecord(
            name=o.name, module=o.module, executed_flops=o.executed_flops, vector_flops=o.vector_flops, bytes=o.bytes
        )
        for o in resnet_ops(timed=False)[:20]
    )
    return Run(
        kind="counted", workload={"target": "x.py:f"}, flops=_flops(list(ops), Precision.BF16), bytes=Bytes(), ops=ops
    )


def above_roof() -> Run:
    """One op of four runs at 139 % of its roof, one has no bound, one no time."""
    work = {"precision": Precision.BF16, "engine": "matrix", "needed_flops": 2e12, "executed_flops": 2e12}
    roof = 2e12 / 989.5e12
    fast = OpRecord(
        name="aten.mm.default",
        module="fast",
        bytes=OpBytes(operator=1e9),
        seconds=roof / 1.39,
        roof_s=roof,
        bound=Bound.COMPUTE,
        efficiency_fraction=1.39,
        **work,
    )
    slow = OpRecord(
        name="aten.mm.default",
        module="slow",
        bytes=OpBytes(operator=1e9),
        seconds=roof * 2,
        roof_s=roof,
        bound=Bound.COMPUTE,
        efficiency_fraction=0.5,
        **work,
    )
    loose = OpRecord(
        name="aten.cumsum.default", vector_flops=1e6, engine="vector", bytes=OpBytes(operator=1e6), seconds=1e-5
    )
    untimed = OpRecord(name="aten.sum.dim_IntList", vector_flops=1e6, engine="vector", bytes=OpBytes(measured=1e6))
    ops = (fast, slow, loose, untimed)
    wall = sum(op.seconds or 0 for op in ops)
    return Run(
        kind="imported",
        workload={"target": "trace.json"},
        machine=GPU,
        flops=Flops(needed=4e12, executed=4e12, vector=2e6, by_precision={Precision.BF16: 4e12}),
        bytes=Bytes(measured=2e9),
        timing=Timing(median_s=wall, samples_s=(wall,) * 5, spread_fraction=0.31, stable=False),
        verdict=Verdict(
            bound=Bound.COMPUTE,
            certain=True,
            mfu_fraction=0.73,
            hfu_fraction=0.74,
            bytes_origin="measured",
            intensity_flops_per_byte=2000.0,
            ridge_point_flops_per_byte=295.4,
            precision=Precision.BF16,
            roof_s=2 * roof,
        ),
        ops=ops,
        warnings=("aten.mm at fast runs at 139 % of its roof: the clock is likely above the datasheet's boost",) * 5,
    )


def with_unknown() -> Run:
    """Two unknown ops and an estimate among few rows."""
    run = resnet()
    unknown = (
        UnknownOp(name="mylib.my_op", calls=3, bytes_fraction=0.02, time_fraction=0.041),
        UnknownOp(name="mylib.other", calls=1, bytes_fraction=0.001),
    )
    mystery = OpRecord(
        name="mylib.my_op", module="head", calls=3, bytes=OpBytes(operator=1e6), seconds=1e-4, formula="none"
    )
    guess = OpRecord(
        name="aten.topk.default",
        module="head",
        vector_flops=1e6,
        bytes=OpBytes(operator=1e6),
        seconds=1e-5,
        roof_s=3e-7,
        bound=Bound.MEMORY,
        efficiency_fraction=0.03,
        engine="vector",
        formula="estimate",
    )
    return _with(
        run, coverage=Coverage(counted_fraction=0.9997, unknown_ops=unknown), ops=(*run.ops[:30], mystery, guess)
    )


def network_bound() -> Run:
    """All-reduce dominates a training step; integers on another row."""
    mm = _op(
        GPU,
        1.5,
        name="aten.mm.default",
        module="mlp",
        precision=Precision.BF16,
        engine="matrix",
        needed_flops=3e11,
        executed_flops=4e11,
        bytes=OpBytes(operator=2e9),
    )
    reduce = OpRecord(
        name="c10d.allreduce_",
        module="",
        phase="backward",
        calls=12,
        network_bytes=4.5e9,
        bytes=OpBytes(operator=0),
        seconds=12e-3,
        roof_s=10e-3,
        bound=Bound.NETWORK,
        efficiency_fraction=10 / 12,
    )
    wall = mm.seconds + 12e-3
    budget = TimeBudget(
        wall_s=wall, compute_s=0, memory_s=mm.roof_s, inefficiency_s=mm.seconds - mm.roof_s, network_s=12e-3, idle_s=0
    )
    return Run(
        kind="measured",
        workload={"target": "train.py:step", "batch": 8, "train": True},
        machine=GPU,
        flops=Flops(needed=3e11, executed=4e11, vector=0, by_precision={Precision.BF16: 4e11}),
        bytes=Bytes(operator=2e9),
        timing=Timing(median_s=wall, samples_s=(wall,) * 3, spread_fraction=0.0, stable=True, compile_s=12.3),
        time_budget=budget,
        verdict=Verdict(
            bound=Bound.NETWORK,
            certain=False,
            mfu_fraction=3e11 / wall / 989.5e12,
            hfu_fraction=4e11 / wall / 989.5e12,
            mbu_fraction=2e9 / wall / 3.35e12,
            intensity_flops_per_byte=200.0,
            ridge_point_flops_per_byte=295.4,
            precision=Precision.BF16,
            roof_s=mm.roof_s + 10e-3,
            efficiency_fraction=(mm.roof_s + 10e-3) / wall,
        ),
        ops=(mm, reduce),
    )


def hostile() -> Run:
    """Names that try to leave their place in every format."""
    bad = "</script><script>alert(1)</script>"
    ops = (
        _op(
            GPU,
            2,
            name=bad,
            module=f"a.{bad}",
            shapes="<b>1</b>",
            precision=Precision.BF16,
            engine="matrix",
            needed_flops=1e9,
            executed_flops=1e9,
            bytes=OpBytes(operator=1e6),
        ),
        _op(
            GPU,
            2,
            name="$x^2$ %{x}|`*",
            module="[bold]\x1b[31m\u202e",
            precision=Precision.BF16,
            engine="matrix",
            needed_flops=1e9,
            executed_flops=1e9,
            bytes=OpBytes(operator=1e7),
        ),
    )
    run = _with(
        resnet(), ops=ops, modules=modules(list(ops)), workload={"target": bad, "batch": bad, "<i>k</i>": bad}
    )
    advice = (Advice(action=f"{bad} @everyone | *x*", saves_at_most_s=1e-3, evidence=bad),)
    return _with(run, advice=advice, warnings=(bad,), environment={bad: {bad: [bad]}})


def _with(run: Run, **changes: object) -> Run:
    fields = {name: getattr(run, name) for name in run.__struct_fields__}
    return Run(**{**fields, **changes})


ALL = {
    "resnet": resnet,
    "resnet on cpu": lambda: resnet(CPU, precision=Precision.FP32),
    "counted": counted,
    "empty": empty,
    "unjudged": unjudged,
    "above the roof": above_roof,
    "unknown ops": with_unknown,
    "network": network_bound,
    "hostile": hostile,
}
