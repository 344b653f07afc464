"""The black-box harness: a cluster of real processes, random faults from outside, and a verdict about what clients saw.

python -m tests.blackbox --minutes 20          (`make torture MINUTES=20`; docs/internals/torture.md)
"""
