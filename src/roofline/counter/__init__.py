"""A PyTorch program → op records and bytes, by the origins that counting can give."""

from roofline.counter.counted import counted_run as counted_run
from roofline.counter.program import Program as Program
from roofline.counter.recording import Recording as Recording
from roofline.counter.recording import record as record
