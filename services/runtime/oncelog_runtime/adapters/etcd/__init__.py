"""The metadata store on etcd, and an etcd of our own for laptops and tests."""
