"""Verbs for a cluster on this machine: `up`, `down` and the others."""
