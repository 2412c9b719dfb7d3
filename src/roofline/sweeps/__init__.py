"""The article's experiments: one per file, each a list of cases that grow; a case becomes a judged Run."""

from roofline.sweeps.case import Case as Case
from roofline.sweeps.case import Result as Result
from roofline.sweeps.case import Where as Where
