"""How a script gets to a host and its output back: real SSH, this machine, or a fake for unit tests."""
