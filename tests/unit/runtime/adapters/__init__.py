"""Mirrors services/runtime/oncelog_runtime/adapters: what needs no socket."""
