"""The rolling upgrade: a pure table of transitions, its record on the node, and what each phase does."""
