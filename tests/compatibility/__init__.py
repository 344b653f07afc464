"""Versions N and N-1 together: on the wire, in etcd, and on disk (`make compat` runs the long ones)."""
