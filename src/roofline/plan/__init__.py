"""A model's config, a phase and a way to split it → op records, without torch."""
