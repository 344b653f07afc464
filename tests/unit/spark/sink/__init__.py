"""Mirrors spark/pyspark_oncelog/sink."""
