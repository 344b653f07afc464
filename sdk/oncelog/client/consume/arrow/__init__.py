"""Rows as Arrow: one answer after the other, or a range of offsets."""
