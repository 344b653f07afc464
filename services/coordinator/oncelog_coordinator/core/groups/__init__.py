"""Membership of consumer groups: who is in a group, and which member reads which partition. Pure."""
