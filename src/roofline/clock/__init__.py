"""Time and measure: the stopwatch, per-op times, the sustained ceilings of a machine, its environment."""
