"""The tests of oncelog, from pure units up to whole clusters."""
