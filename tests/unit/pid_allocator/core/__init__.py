"""Mirrors services/pid_allocator/oncelog_pid_allocator/core."""
