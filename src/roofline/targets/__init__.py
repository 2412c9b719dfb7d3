"""TARGET → a program: torchvision, timm and transformers models by name, or a factory in the user's file."""

from roofline.targets.build import program as program
from roofline.targets.find import find as find
from roofline.targets.made import Made as Made
from roofline.targets.made import Target as Target
from roofline.targets.options import Options as Options
