"""The chart and the image on a real Kubernetes cluster, under a transactional load: `make e2e-kubernetes`."""
