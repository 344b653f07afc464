"""The metadata store on etcd, and a single-member etcd for laptops and tests."""
