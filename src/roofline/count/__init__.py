"""A PyTorch program → op records and bytes, by the origins that counting can give."""

from roofline.count.counted import counted_run as counted_run
from roofline.count.fused import FusedBytes as FusedBytes
from roofline.count.program import Program as Program
from roofline.count.recording import Recording as Recording
from roofline.count.recording import record as record
