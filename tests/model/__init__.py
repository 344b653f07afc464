"""The transaction protocol as an exhaustive model: every order of events within a bound, and none that breaks a promise.

Read in this order: `state` (who remembers what), `coordinator` and `leader` (the two sides of the protocol, as pure
functions), `clients` (who uses it), `protocol` (every step that can happen next, the faults among them), `invariants`
(what must hold), `rules` (what may be taken out) and `scenarios` (the bounds).  `explorer` knows nothing of oncelog.
"""
