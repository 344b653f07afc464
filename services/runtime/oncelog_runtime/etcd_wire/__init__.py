"""Stubs of etcd's v3 wire API, generated from protos/oncelog_runtime/etcd_wire (`make protos`).

Rule: only `oncelog_runtime.adapters` imports them. They replace the stubs inside of the etcd3 package, which are older than
protobuf 4 and cannot be imported beside a current protobuf.
"""
