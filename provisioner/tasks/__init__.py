"""What can be desired of a host. A task says what it must know and, given facts, what differs; it does nothing."""
