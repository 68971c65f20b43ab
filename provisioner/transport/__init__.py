"""How a script gets to a host and its output back: over real SSH, on this machine, or in a test."""
