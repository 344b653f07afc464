"""Real sockets, disks, processes and etcd."""
