"""Mirrors spark/pyspark_oncelog/options."""
