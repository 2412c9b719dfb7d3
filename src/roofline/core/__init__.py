"""The theory: pure Python, no torch, no I/O. Start with `roof`."""
