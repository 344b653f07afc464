"""Transactions of a producer, of one client and of many."""
