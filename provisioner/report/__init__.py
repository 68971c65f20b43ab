"""What a run looks like to a person or a program: plan, progress, recap, JSON. Sees model and events only."""
