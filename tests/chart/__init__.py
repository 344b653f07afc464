"""What `make chart` checks: the rendered chart against Helm, Kubernetes, the services' own settings, and its past."""
