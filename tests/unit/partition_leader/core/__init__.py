"""Tests of the pure cores of the broker."""
