"""Cases H: members of groups and their offsets."""
