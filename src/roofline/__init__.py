"""Which ceiling binds a program, how far below it the program is, and what moving it is worth."""

__version__ = "0.1.0"
