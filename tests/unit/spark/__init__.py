"""Unit tests of the Spark package that need neither Spark nor a cluster."""
