"""The cluster metadata in etcd: keys and values, the view of it, and the detection of a restore from a backup."""
