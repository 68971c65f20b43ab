"""Frozen dataclasses that travel between the layers; no behaviour beyond their own meaning."""
