"""Page faults: pages of a known size counted by hand."""

import mmap
import sys

import pytest

from roofline.clock.faults import page_faults

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for small pages")


def test_a_step_that_takes_fresh_memory_faults_once_per_page():
    pages = 1024

    def step():
        memory = mmap.mmap(-1, pages * mmap.PAGESIZE)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory[:] = bytes(len(memory))

    step()
    found = page_faults(step, "cpu")
    # Python's own zeros are one more block of that size, taken anew or not.
    assert pages <= found.per_step <= 2 * pages + 64
    assert 0 < found.all_threads_s <= found.one_thread_s  # never less than the share of each thread


def test_a_step_that_keeps_its_memory_has_none():
    memory = bytearray(4 * 2**20)

    def step():
        memory[::4096] = b"x" * 1024

    step()
    assert page_faults(step, "cpu") is None


def test_other_devices_have_none():
    assert page_faults(lambda: None, "meta") is None
