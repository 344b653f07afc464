"""What is tried on things that `make test` does not start: a Kubernetes cluster."""
