"""The Python workers of Spark: their clients, their memory, their interpreter."""
