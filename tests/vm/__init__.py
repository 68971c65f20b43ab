"""Hosts with a kernel of their own: Debian under QEMU without KVM, for what containers can't make real.

``python -m tests.vm`` is the way in for people, the fixture ``vm`` the one for tests. See README.md beside this file.
"""
