"""The origins on made-up accesses: against a naive cache that keeps single bytes, and their order."""

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.counter.call import Access, OpCall, Region
from roofline.counter.origins import cached_bytes, compulsory_bytes, operator_bytes
from roofline.formulas.registry import Cost

STORAGES, SIZE = 4, 24


def op(reads=(), writes=(), workspace=0):
    cost = Cost(workspace_bytes=workspace)
    return OpCall("op", "", "forward", (), None, cost, "exact", False, tuple(reads), tuple(writes))


def whole(storage, start=0, stop=100):
    return Access(Region(storage, start, stop), stop - start)


@st.composite
def stretches(draw):
    start = draw(st.integers(0, SIZE - 1))
    return Region(draw(st.integers(0, STORAGES - 1)), start, draw(st.integers(start + 1, SIZE)))


whole_accesses = stretches().map(lambda region: Access(region, region.stop - region.start))
any_accesses = st.builds(
    lambda region, share: Access(region, max(1, round(share * (region.stop - region.start)))),
    stretches(),
    st.floats(0.1, 1),
)


def programs(accesses):
    few = st.lists(accesses, max_size=2)
    return st.lists(st.builds(op, few, few, st.sampled_from([0, 0, 5])), max_size=8)


living = st.frozensets(st.integers(0, STORAGES - 1))


def naive_dram_bytes(calls, capacity, alive):
    """Byte by byte: an LRU of (storage, address) with the call that dirtied each."""
    cache: OrderedDict[tuple[int, int], int | None] = OrderedDict()
    traffic = [c.cost.workspace_bytes for c in calls]

    def use(key, writer):
        before = cache.pop(key, None)
        cache[key] = before if writer is None else writer
        if len(cache) > capacity:
            _, owner = cache.popitem(last=False)
            if owner is not None:
                traffic[owner] += 1

    for i, call in enumerate(calls):
        for (storage, start, stop), _ in call.reads:
            for address in range(start, stop):
                traffic[i] += (storage, address) not in cache
                use((storage, address), None)
        for (storage, start, stop), _ in call.writes:
            for address in range(start, stop):
                use((storage, address), i)
        later = {a.region.storage for c in calls[i + 1 :] for a in (*c.reads, *c.writes)}
        for key in [k for k in cache if k[0] not in later and k[0] not in alive]:
            del cache[key]
    for owner in cache.values():
        if owner is not None:
            traffic[owner] += 1
    return traffic


@settings(max_examples=80, deadline=None)
@given(programs(whole_accesses), st.integers(0, STORAGES * SIZE + 10), living)
def test_cached_equals_a_cache_of_single_bytes(calls, capacity, alive):
    assert cached_bytes(calls, capacity, alive) == pytest.approx(naive_dram_bytes(calls, capacity, alive))


@settings(max_examples=80, deadline=None)
@given(programs(whole_accesses), living)
def test_more_cache_is_never_more_traffic(calls, alive):
    totals = [sum(cached_bytes(calls, capacity, alive)) for capacity in range(0, STORAGES * SIZE + 8, 8)]
    assert totals == sorted(totals, reverse=True)


@settings(max_examples=120, deadline=None)
@given(programs(any_accesses), st.integers(0, STORAGES * SIZE * 2), living)
def test_compulsory_is_at_most_cached_is_at_most_operator(calls, capacity, alive):
    cached = cached_bytes(calls, capacity, alive)
    assert compulsory_bytes(calls, alive) <= sum(cached) + 1e-9
    for here, call in zip(cached, calls, strict=True):
        assert 0 <= here <= call.operator_bytes + 1e-9


@settings(max_examples=60, deadline=None)
@given(programs(any_accesses), living)
def test_without_a_cache_every_byte_asked_for_is_traffic(calls, alive):
    assert sum(cached_bytes(calls, 0, alive)) == pytest.approx(operator_bytes(calls))


@settings(max_examples=60, deadline=None)
@given(programs(whole_accesses), living)
def test_behind_a_cache_that_holds_everything_only_first_reads_and_results_move(calls, alive):
    seen, dirty, total = set(), set(), 0
    for call in calls:
        total += call.cost.workspace_bytes
        for (storage, start, stop), _ in call.reads:
            fresh = {(storage, b) for b in range(start, stop)} - seen
            total, seen = total + len(fresh), seen | fresh
        for (storage, start, stop), _ in call.writes:
            written = {(storage, b) for b in range(start, stop)}
            seen |= written
            dirty |= written if storage in alive else set()
    assert sum(cached_bytes(calls, 10**9, alive)) == total + len(dirty)


def test_a_result_that_the_next_op_reads_is_served_from_a_cache_that_holds_it():
    calls = [op([whole(0)], [whole(1)]), op([whole(1)], [whole(2)])]
    assert cached_bytes(calls, 1000, {0, 2}) == [100, 100]  # storage 1 dies in the cache, unwritten
    assert cached_bytes(calls, 150, {0, 2}) == [150, 100]  # half of it had to go before it died
    assert cached_bytes(calls, 50, {0, 2}) == [200, 200]


def test_an_input_read_twice_costs_once_if_what_lies_between_leaves_it_there():
    calls = [op([whole(0)]), op([whole(1)]), op([whole(0)])]
    assert cached_bytes(calls, 200, {0, 1}) == [100, 100, 0]
    assert cached_bytes(calls, 150, {0, 1}) == [100, 100, 100]  # the first bytes go first, and each miss evicts a hit


def test_the_parts_of_a_packed_tensor_are_found_in_it():
    """Query, key and value are strided thirds of one matrix product's result."""
    thirds = [Access(Region(1, 32 * i, 32 * i + 896), 320) for i in range(3)]
    calls = [op([whole(0)], [whole(1, 0, 960)]), op(thirds, [whole(2)])]
    assert cached_bytes(calls, 10_000, {0, 2}) == [100, 100]
    assert sum(cached_bytes(calls, 0, {0, 2})) == 100 + 960 + 960 + 100
    inputs_only = [op(thirds, [whole(2)])]
    assert compulsory_bytes(inputs_only, {1, 2}) == 960 + 100


def test_results_that_die_are_not_compulsory_and_inputs_overwritten_are_both():
    calls = [op([whole(0)], [whole(1)]), op([whole(1)], [whole(0)])]
    assert compulsory_bytes(calls, {0}) == 100 + 100
    assert compulsory_bytes(calls, {0, 1}) == 300
