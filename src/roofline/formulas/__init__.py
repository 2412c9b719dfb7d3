"""Op → work: one family of ops per file, no torch. Importing the package fills the table."""

from roofline.formulas.registry import Cost as Cost
from roofline.formulas.registry import formula as formula
from roofline.formulas.registry import free as free
from roofline.formulas.registry import register_formula as register_formula
from roofline.formulas.spec import TensorSpec as TensorSpec
