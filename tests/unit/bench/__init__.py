"""Of the benchmarks: what they conclude, not how fast anything is."""
