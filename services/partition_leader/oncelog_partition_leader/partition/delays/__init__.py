"""The shell of delayed records: reads a waiting partition, and moves what is due in transactions of its own."""
