"""Access control: shells around the rules in `core.security`, which read them, apply them and record decisions."""
