"""The main job, end to end: real text, real processes, real crashes, and a reader that verifies. `make demo` runs it."""
