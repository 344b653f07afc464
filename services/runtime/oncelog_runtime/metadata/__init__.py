"""What stands in etcd: its keys and values, the view of it, and noticing that it went back."""
