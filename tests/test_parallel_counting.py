"""Programs of several ranks: what one rank does, what all do, and the bytes between them.

Most run in one process, in a group whose other ranks are made up; one really runs on two processes.
"""

import json

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

import roofline
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound

pytestmark = pytest.mark.filterwarnings("ignore")
F32 = 4
LINK = 1e9
MACHINE = Machine(
    key="toy",
    name="Toy",
    matrix={Precision.FP32: Ceiling(1e12, "given")},
    vector={Precision.FP32: Ceiling(1e11, "given")},
    bandwidth={"dram": Ceiling(1e11, "given"), "nvlink": Ceiling(LINK, "given")},
)


@pytest.fixture
def ranks(request):
    """A group of so many ranks, this process being the first, in which nothing is really sent."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=request.param)
    yield request.param
    dist.destroy_process_group()


def mlp():
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))


def split(model, ranks):
    return parallelize_module(
        model, init_device_mesh("cpu", (ranks,)), {"0": ColwiseParallel(), "2": RowwiseParallel()}
    )


def sent(run, name):
    return [o.network_bytes / o.calls for o in run.ops if name in o.name for _ in range(o.calls)]


@pytest.mark.parametrize("ranks", [2, 4], indirect=True)
def test_b29_a_tensor_parallel_mlp_is_labelled_per_rank_and_global(ranks):
    """MLP 16→64→16 on x (4, 16): 16,384 FLOP. With two ranks each does 8192; public counters print 16,384 on each."""
    run = roofline.count(split(mlp(), ranks), torch.ones(4, 16), machine=MACHINE)
    total = 2 * 4 * (16 * 64 + 64 * 16)
    assert run.flops.executed == run.flops.needed == total / ranks
    parallel = run.workload["parallel"]
    assert (parallel["ranks"], parallel["rank"], parallel["figures"]) == (ranks, 0, "per rank")
    assert parallel["global"]["executed_flops"] == parallel["global"]["needed_flops"] == total == 16_384
    assert any("rank 0 of" in w and "16.4 kFLOP" in w for w in run.warnings)
    # Ring all-reduce of the result (4, 16): 2·s·(n − 1)/n from each rank.
    assert sent(run, "all_reduce") == [2 * 4 * 16 * F32 * (ranks - 1) / ranks]
    (reduce,) = [o for o in run.ops if "all_reduce" in o.name]
    assert reduce.formula == "exact"
    assert reduce.bound == Bound.NETWORK
    assert reduce.roof_s == pytest.approx(reduce.network_bytes / LINK)


@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_a_tensor_parallel_training_step_does_a_share_of_the_work(ranks):
    x = torch.ones(4, 16, requires_grad=True)
    run = roofline.count(split(mlp(), ranks), x, train=True)
    assert run.flops.executed == 3 * 16_384 / ranks
    # All-reduce of the result forward; of the input's gradient backward.
    assert sent(run, "all_reduce") == [2 * 4 * 16 * F32 / 2] * 2


@pytest.mark.parametrize("ranks", [2, 8], indirect=True)
def test_fully_sharded_layers_are_gathered_twice_and_their_gradients_scattered_once(ranks):
    model = mlp()
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=init_device_mesh("cpu", (ranks,)))
    fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
    run = roofline.count(model, torch.ones(4, 16), train=True)
    # Every rank works on its own batch with whole layers; x needs no gradient.
    layer = 2 * 4 * 16 * 64
    assert run.flops.executed == 2 * layer + 3 * layer
    assert run.workload["parallel"]["global"]["executed_flops"] == ranks * 5 * layer
    first, second = (16 * 64 + 64) * F32, (64 * 16 + 16) * F32
    away = (ranks - 1) / ranks
    gathered, scattered = sent(run, "allgather"), sent(run, "reduce_scatter")
    assert sum(gathered) == pytest.approx(2 * (first + second) * away)  # forward and backward
    assert sum(scattered) == pytest.approx((first + second) * away)


@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_a_pipeline_rank_counts_its_stage_and_claims_nothing_about_the_others(ranks):
    stage, x = nn.Linear(16, 64), torch.ones(4, 16)

    def step():
        with torch.no_grad():
            dist.send(stage(x), 1)

    run = roofline.count(step)
    assert run.flops.executed == 2 * 4 * 16 * 64
    assert sent(run, "send") == [4 * 64 * F32]
    assert run.workload["parallel"]["global"] is None
    assert any("count every rank" in w for w in run.warnings)


@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_a_collective_counts_the_ranks_of_its_own_group(ranks):
    pair = dist.new_group([0, 1])
    alone = dist.new_group([0])
    x = torch.ones(1024)

    def step(group):
        return lambda: dist.all_reduce(x, group=group)

    found = [sum(sent(roofline.count(step(g)), "allreduce")) for g in (None, pair, alone)]
    assert found == [2 * 4096 * 3 / 4, 2 * 4096 * 1 / 2, 0]


@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_the_other_collectives_follow_the_ring(ranks):
    x, whole = torch.ones(1024), torch.ones(4096)
    steps = {
        "allgather": (lambda: dist.all_gather_into_tensor(whole, x), 4096 * 3),
        "reduce_scatter": (lambda: dist.reduce_scatter_tensor(x, whole), 4 * 4096 * 3 / 4),
        "alltoall": (lambda: dist.all_to_all_single(whole, whole.clone()), 4 * 4096 * 3 / 4),
        "broadcast": (lambda: dist.broadcast(x, 0), 4096),
    }
    for name, (step, expected) in steps.items():
        assert sum(sent(roofline.count(step), name)) == expected, name


def test_a_program_of_one_process_has_no_ranks():
    run = roofline.count(nn.Linear(16, 64), torch.ones(4, 16))
    assert "parallel" not in run.workload
    assert not run.warnings


def _two_processes(rank: int, path: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}/store", rank=rank, world_size=2)
    found = {}
    split_run = roofline.count(split(mlp(), 2), torch.ones(4, 16))
    found["tensor parallel"] = (split_run.flops.executed, sum(sent(split_run, "all_reduce")))
    replicated = nn.parallel.DistributedDataParallel(mlp())
    run = roofline.count(replicated, torch.ones(4, 16), train=True)
    found["data parallel"] = (run.flops.executed, sum(sent(run, "allreduce")))
    found["labels"] = run.workload["parallel"]
    with open(f"{path}/{rank}.json", "w") as file:  # noqa: PTH123
        json.dump(found, file)
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_real_processes_count_the_same(tmp_path):
    """Gloo over loopback. DDP can't run on fake tensors: it is counted over one real step."""
    torch.multiprocessing.spawn(_two_processes, (str(tmp_path),), nprocs=2)
    for rank in (0, 1):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["tensor parallel"] == [8192, 2 * 4 * 16 * F32 / 2]
        parameters = 16 * 64 + 64 + 64 * 16 + 16
        assert found["data parallel"] == [5 * 2 * 4 * 16 * 64, 2 * parameters * F32 / 2]
        assert (found["labels"]["ranks"], found["labels"]["rank"]) == (2, rank)
