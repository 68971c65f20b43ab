"""Observe, plan, compile, apply, verify: the only place where something happens."""
