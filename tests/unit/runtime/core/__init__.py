"""Tests of the cores that all services share."""
