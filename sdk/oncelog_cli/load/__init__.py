"""Verbs that put load on a cluster: `bench` and `verify`."""
