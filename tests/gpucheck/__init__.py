"""For a host with a real card: what the tests' stand-ins claim of one, checked there. `make gpu-check`."""
