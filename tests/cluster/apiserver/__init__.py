"""A small API server: what kubectl and the product use of the Kubernetes API, with the real one's rules and texts."""
