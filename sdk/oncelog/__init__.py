"""oncelog: a partitioned, replicated, transactional log; this is its client SDK."""
