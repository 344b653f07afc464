"""Mirrors services/runtime."""
