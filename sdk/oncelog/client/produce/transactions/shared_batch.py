"""Names a batch that many writers write in one transaction: each of them gives the same names, and so does the commit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SharedBatch:
    """Names one piece of work that many writers write in one transaction, such as a micro-batch; no batch of records.

    Plain values, which can be pickled. `transactional_id`: of the sink; two jobs never share one. `owner_run`: one life of the
    job; the first join under a new one fences the run before. `app_id` and `batch_id`: the work (Spark's query id and batch id,
    or Delta's `txnAppId` and `txnVersion`), stored with its commit as its token: a repeated commit is a no-op, and a later join
    finds `already_committed`. `write_attempt`: one try to write the whole; of two the one that sorts later as text wins.

    `token_expires` counts in the commit. False: the token is kept for good, and the transactional id with it. True: no other
    run ever writes this batch, so both are removed once the id has not been used for long; it has no effect where the same
    `app_id` has committed a batch with False under this id.
    """

    transactional_id: str
    owner_run: str
    app_id: str
    batch_id: int
    write_attempt: str = ""
    token_expires: bool = False
