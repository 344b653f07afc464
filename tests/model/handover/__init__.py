"""The hand-over of a group's partitions between its members as an exhaustive model: epochs, heartbeats, late copies, silence.

Read in this order: `state` (who knows what), `rules` (what may be taken out), `coordinator` (one heartbeat, decided),
`protocol` (every step, and the promise), `scenarios` (the bounds). The explorer is the one of `tests.model`.

`test_handover` claims that with all rules no promise is broken, and that each rule is needed; `test_production` asks
`core/groups/reconcile.py` for the next step of every member in every state of this model.

Its bounds: two members, or a third one that comes to two, and two partitions at most; in a run one late copy at most,
together with one change of topics, one lost answer, one session that ends, or one member that leaves. An assignment may be
any function from partitions to members, so what is shown holds for every assignor. A member has one call under way, and
reads what it read before until it lets go. Static members that are away, subscriptions and fail-overs are not in it: a
fail-over changes nothing of the state that is kept here.
"""
