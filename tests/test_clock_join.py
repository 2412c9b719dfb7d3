"""Per-op times: from a made-up tree of events, then from torch's own profiler."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from roofline.clock.join import CountedCall, dispatched_ops, join
from roofline.clock.profile import Event, Profile, ProfiledStep, can_profile, profile_step, read_steps, union_s

MS = 1e-3


def op(name, start_ms, length_ms, *children, shapes=(), device_ms=0.0, kind="op"):
    return Event(
        name=name,
        kind=kind,
        shapes=shapes,
        start_s=start_ms * MS,
        host_s=length_ms * MS,
        device_s=device_ms * MS,
        children=children,
    )


def profile_of(*steps, on_device=False, overhead_s=0.0):
    made = tuple(ProfiledStep(events=tuple(events), wall_s=1.0, busy_s=1.0) for events in steps)
    return Profile(steps=made, on_device=on_device, overhead_s=overhead_s)


def ms(joined):
    return [s and s / MS for s in joined.seconds]


def test_the_outermost_event_of_a_counted_name_gets_all_the_time_inside_it():
    tree = op("aten.convolution", 0, 10, op("aten._convolution", 1, 8, op("aten.mkldnn_convolution", 2, 6)))
    joined = join([CountedCall("aten.convolution.default")], profile_of([tree]))
    assert ms(joined) == [pytest.approx(10)]
    assert joined.unmatched_s == 0
    assert joined.matched_fraction == 1


def test_a_wrappers_own_time_goes_to_the_ops_in_it_in_proportion():
    # Own time 20 - (6 + 12) = 2, shared 6 : 12.
    tree = op("aten.conv2d", 0, 20, op("aten._to_copy", 1, 6), op("aten.convolution", 8, 12))
    joined = join([CountedCall("aten._to_copy"), CountedCall("aten.convolution")], profile_of([tree]))
    assert ms(joined) == [pytest.approx(6 + 2 * 6 / 18), pytest.approx(12 + 2 * 12 / 18)]


def test_a_scope_of_the_host_keeps_its_own_time():
    tree = op("Optimizer.step#SGD.step", 0, 100, op("aten.add_", 10, 5), kind="host")
    profile = profile_of([tree])
    joined = join([CountedCall("aten.add_.Tensor")], profile)
    assert ms(joined) == [pytest.approx(5)]
    assert joined.unmatched_s == 0
    assert dispatched_ops([tree], ["aten.add_"], profile)[0][0].phase == "optimizer"


def test_an_op_inside_an_autograd_node_is_backward():
    tree = op("MmBackward0", 0, 9, op("aten.mm", 1, 8), kind="autograd")
    found, _ = dispatched_ops([op("aten.mm", -5, 2), tree], ["aten.mm"], profile_of())
    assert [f.phase for f in found] == ["forward", "backward"]


def test_calls_are_matched_in_order_when_there_are_as_many():
    events = [op("aten.mm", 0, 1), op("aten.mm", 5, 2), op("aten.mm", 9, 3)]
    joined = join([CountedCall("aten.mm")] * 3, profile_of(events))
    assert ms(joined) == [pytest.approx(n) for n in (1, 2, 3)]


def test_shapes_decide_before_order():
    wide, tall = ((1, 9),), ((9, 1),)
    events = [op("aten.mm", 0, 1, shapes=wide), op("aten.mm", 5, 2, shapes=tall)]
    joined = join([CountedCall("aten.mm", tall), CountedCall("aten.mm", wide)], profile_of(events))
    assert ms(joined) == [pytest.approx(2), pytest.approx(1)]


def test_without_equal_numbers_a_call_gets_the_mean_of_its_like_and_the_rest_is_unmatched():
    a, b = ((2, 2),), ((3, 3),)
    events = [op("aten.mm", 0, 4, shapes=a), op("aten.mm", 5, 6, shapes=a), op("aten.mm", 12, 7, shapes=b)]
    joined = join([CountedCall("aten.mm", a)], profile_of(events))
    assert ms(joined) == [pytest.approx((4 + 6) / 2)]
    assert joined.unmatched == {"aten.mm": pytest.approx((4 + 6 + 7 - 5) * MS)}


def test_calls_never_share_out_more_time_than_there_is():
    events = [op("aten.mm", 0, 6, shapes=((2, 2),))]
    joined = join([CountedCall("aten.mm", ((2, 2),))] * 3, profile_of(events))
    assert ms(joined) == [pytest.approx(6 / 3)] * 3


def test_a_call_that_never_ran_has_no_time_rather_than_zero():
    joined = join([CountedCall("aten.mm"), CountedCall("aten.bmm")], profile_of([op("aten.mm", 0, 1)]))
    assert ms(joined) == [pytest.approx(1), None]


def test_an_op_that_was_not_counted_is_reported_by_name():
    joined = join([CountedCall("aten.mm")], profile_of([op("aten.mm", 0, 3), op("mylib.fused", 4, 1)]))
    assert joined.unmatched == {"mylib.fused": pytest.approx(1 * MS)}
    assert joined.matched_fraction == pytest.approx(3 / 4)


def test_gradients_summed_in_place_are_the_additions_that_were_counted():
    joined = join([CountedCall("aten.add.Tensor")], profile_of([op("aten.add_", 0, 2)]))
    assert ms(joined) == [pytest.approx(2)]


def test_the_median_over_steps_ignores_one_disturbed_step():
    steps = [[op("aten.mm", 0, 2)], [op("aten.mm", 0, 90)], [op("aten.mm", 0, 3)]]
    assert ms(join([CountedCall("aten.mm")], profile_of(*steps))) == [pytest.approx(3)]


def test_profiler_overhead_is_taken_off_per_event_inside():
    # 10 ms hold two events of 3 ms and their overhead of 1 ms each: 10 - 2 remain.
    tree = op("aten.mm", 0, 10, op("aten.clone", 1, 3), op("aten.clone", 5, 3))
    profile = profile_of([tree], overhead_s=1 * MS)
    assert ms(join([CountedCall("aten.mm")], profile)) == [pytest.approx(10 - 2 * 1)]
    assert dispatched_ops([tree], ["aten.mm"], profile)[0][0].raw_s == pytest.approx(10 * MS)


def test_times_are_scaled_down_to_the_wall_and_never_up():
    profile = profile_of([op("aten.mm", 0, 6), op("aten.odd", 7, 2)])
    down = join([CountedCall("aten.mm")], profile, wall_s=4 * MS)
    assert down.scale == pytest.approx(4 / (6 + 2))
    assert down.matched_s + down.unmatched_s == pytest.approx(4 * MS)
    assert join([CountedCall("aten.mm")], profile, wall_s=100 * MS).scale == 1


def test_on_a_device_the_time_of_an_op_is_that_of_its_kernels():
    tree = op("aten.linear", 0, 50, op("aten.addmm", 1, 40, device_ms=7), device_ms=7)
    joined = join([CountedCall("aten.addmm")], profile_of([tree], on_device=True), wall_s=1 * MS)
    assert ms(joined) == [pytest.approx(7)]
    assert joined.scale == 1


def test_a_device_profile_without_kernels_gives_no_times():
    steps = (ProfiledStep(events=(op("aten.mm", 0, 5),), wall_s=1.0, busy_s=0.0),)
    joined = join([CountedCall("aten.mm")], Profile(steps=steps, on_device=True))
    assert joined.seconds == (None,)
    assert joined.matched_fraction is None


def test_overlapping_intervals_count_once():
    assert union_s([(5, 6), (0, 2), (1, 3), (1, 2)]) == 3 + 1


def test_kernels_belong_to_the_step_in_which_they_start():
    cpu, cuda = torch.autograd.DeviceType.CPU, torch.autograd.DeviceType.CUDA

    def raw(name, start_us, end_us, device=cpu, scope=0, user=False, children=(), device_us=0):
        return SimpleNamespace(
            name=name,
            time_range=SimpleNamespace(start=start_us, end=end_us),
            device_type=device,
            scope=scope,
            is_user_annotation=user,
            input_shapes=[[2, 3], [], [[1], [2]]],
            device_time_total=device_us,
            thread=1,
            cpu_parent=None,
            cpu_children=list(children),
        )

    inside = raw("aten::mm", 10, 20, device_us=30)
    inside.cpu_parent = "the step"
    other_thread = raw("aten::bmm", 40, 50)
    marks = [raw("roofline.step", 0, 100, scope=7, user=True, children=[inside]), raw("roofline.step", 200, 300)]
    kernels = [
        raw("gemm", 15, 45, device=cuda),
        raw("gemm", 40, 60, device=cuda),
        raw("roofline.step", 0, 100, device=cuda, user=True),
        raw("gemm", 210, 215, device=cuda),
    ]
    first, second = read_steps([*marks, inside, other_thread, *kernels], on_device=True)
    assert [e.name for e in first.events] == ["aten.mm", "aten.bmm"]
    assert first.busy_s == pytest.approx(45e-6)
    assert second.busy_s == pytest.approx(5e-6)
    assert first.wall_s == pytest.approx(100e-6)
    assert first.events[0].shapes == ((2, 3),)


class Listener(TorchDispatchMode):
    """What a counter sees: every op below autograd."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        values = [*args, *(kwargs or {}).values()]
        self.calls.append(CountedCall(str(func), tuple(tuple(v.shape) for v in values if torch.is_tensor(v))))
        return func(*args, **(kwargs or {}))


def joined_share(step):
    step()
    with Listener() as listener:
        step()
    return join(listener.calls, profile_step(step, "cpu", steps=2))


def convolutional(train):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(inplace=True), torch.nn.Conv2d(16, 16, 3)
    ).train(train)
    return model, torch.randn(4, 3, 32, 32)


def recurrent(train):
    lstm = torch.nn.LSTM(32, 32, 2, batch_first=True).train(train)
    return (lambda x: lstm(x)[0]), torch.randn(4, 16, 32)


def attentive(train):
    layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True).train(train)
    return layer, torch.randn(4, 32, 64)


@pytest.mark.parametrize("make", [convolutional, recurrent, attentive])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("train", [False, True])
def test_nearly_all_time_of_real_programs_finds_its_counted_call(make, autocast, train):
    model, x = make(train)

    def step():
        with torch.set_grad_enabled(train), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = model(x)
        if train:
            out.sum().backward()

    joined = joined_share(step)
    assert joined.matched_fraction >= 0.95


def test_a_profile_tells_forward_from_backward_and_keeps_the_order():
    x = torch.randn(32, 32, requires_grad=True)
    profile = profile_step(lambda: torch.mm(torch.mm(x, x).relu(), x).sum().backward(), "cpu", steps=1)
    found, _ = dispatched_ops(profile.steps[0].events, ["aten.mm", "aten.relu"], profile)
    # Each product has one forward and two backward products.
    assert [(f.name, f.phase) for f in found][:3] == [
        ("aten.mm", "forward"),
        ("aten.relu", "forward"),
        ("aten.mm", "forward"),
    ]
    assert [f.phase for f in found].count("backward") == 2 * 2
    assert found[0].shapes == ((32, 32), (32, 32))
    assert 0 < profile.steps[0].busy_s <= profile.steps[0].wall_s


def test_what_a_profiled_step_raises_goes_through():
    def step():
        raise ZeroDivisionError("of the user's")

    with pytest.raises(ZeroDivisionError):
        profile_step(step, "cpu", warmup=0)


def test_no_per_op_times_are_promised_on_mps():
    assert not can_profile("mps")
    assert can_profile("cpu")
