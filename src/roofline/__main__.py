"""`python -m roofline` is `roofline`."""

from roofline.cli.main import main

main()
