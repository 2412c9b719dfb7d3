"""Op → work: one family of ops per file, no torch. Importing the package fills the table."""

from roofline.formulas import activation as activation
from roofline.formulas import collective as collective
from roofline.formulas import copy as copy
from roofline.formulas import elementwise as elementwise
from roofline.formulas import embedding as embedding
from roofline.formulas import fft as fft
from roofline.formulas import index as index
from roofline.formulas import linalg as linalg
from roofline.formulas import loss as loss
from roofline.formulas import norm as norm
from roofline.formulas import optimizer as optimizer
from roofline.formulas import pool as pool
from roofline.formulas import prims as prims
from roofline.formulas import random as random
from roofline.formulas import reduce as reduce
from roofline.formulas import resample as resample
from roofline.formulas import softmax as softmax
from roofline.formulas import sort as sort
from roofline.formulas import views as views
from roofline.formulas import vision as vision
from roofline.formulas.registry import Cost as Cost
from roofline.formulas.registry import formula as formula
from roofline.formulas.registry import free as free
from roofline.formulas.registry import register_formula as register_formula
from roofline.formulas.spec import TensorSpec as TensorSpec
