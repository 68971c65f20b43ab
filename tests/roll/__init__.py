"""The rolling upgrade with real parts: real kubectl, a cluster, and the lab's hosts over SSH."""
