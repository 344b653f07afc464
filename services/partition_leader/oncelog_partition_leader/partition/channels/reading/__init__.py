"""How a leader reads its log for channels and schedulers."""
