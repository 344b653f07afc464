"""The assignors of groups: pure functions that say which member reads which partition."""
