"""Mirrors services/runtime/oncelog_runtime/adapters/grpc."""
