"""Faults in real processes, for as long as one likes: what the test suite shows once, these show again and again."""
