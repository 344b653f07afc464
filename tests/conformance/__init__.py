"""Scripted stories against a whole simulated cluster: every hole, and the conformance cases that apply (see `cases.py`)."""
