"""Sweeps as tables, pictures and text: one form per file."""
