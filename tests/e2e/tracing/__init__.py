"""The trace of a Spark micro-batch, asked of a real Jaeger."""
