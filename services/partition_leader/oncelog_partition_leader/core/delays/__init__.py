"""Records that wait for their time: what waits, what is due, and what has been moved. A pure core."""
