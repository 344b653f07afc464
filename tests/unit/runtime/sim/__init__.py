"""Tests of the simulation itself: a checker that cannot fail is decoration."""
