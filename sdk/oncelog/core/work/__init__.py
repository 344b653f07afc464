"""Pure decisions of a channel's worker: how much it asks whom for, which records are still its own, and what it says about
them.
"""
