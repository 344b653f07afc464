"""Replication of one partition as an exhaustive model: elections, ISR, high watermark, epochs, and what disks lose.

Read in this order: `state` (who remembers what), `rules` (what may be taken out), `leader` (leaders and followers), `seals`,
`elections` (the controller, as pure functions), `rollbacks` (etcd is restored, and the logs alone decide), `faults` (what the
adversary may do), `invariants` (the promise, stated exactly), `scenarios` (the bounds) and `alike` (why a search need not visit
every state).  The explorer is the one of `tests.model`.

`test_replication` claims that with all rules no promise is broken, and that each rule is needed; `test_production` asks the
controller's own functions in the states of this model.

What the model taught, and its bounds:

- It has three replicas, no more than three faults in a run and one or two records.  A log start and a reset to it
  are not in it, nor is a reassignment.
- That only who has answered is elected (`elects_only_heard`) breaks no promise when it is taken out, since everybody who is
  not elected stays eligible: it is there so that nobody waits for a dead leader's lease.
- A leader's seal is durable and written in one step (`seals`), at any time below the minimum or never.  None is written once
  no power cut can come.
- After a restore of etcd that is noticed, nothing acknowledged is lost as long as every replica's disk survives, be it full or
  not.  Without the epoch that a log has reached (`reached_epoch_counts`) the first search finds the loss in eleven steps.  A
  restore that nobody notices is another fault (`restores` of the budget): what it brings is believed.
- Three holes are known and stay (`scenarios.KNOWN_HOLES`).  Two of them are narrowed by seals.
"""
