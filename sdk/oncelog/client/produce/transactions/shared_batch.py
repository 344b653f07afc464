"""Names a batch that many writers write in one transaction: each of them gives the same names, and so does the commit."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.v1 import coordinator_pb2 as co


@dataclass(frozen=True, slots=True)
class SharedBatch:
    """The names of a batch, of the run that writes it and of this attempt; plain values, which can be pickled.

    `transactional_id`: of the sink; two jobs never share one. `owner_run`: one life of the job; the first join under a new one
    shuts out the run before. `app_id` and `batch_id`: the batch (Spark's query id and batch id, or Delta's `txnAppId` and
    `txnVersion`); they are stored with its commit, and who joins or commits it again changes nothing. `write_attempt`: one try
    to write the whole batch; of two the one that sorts later as text wins.

    `token_expires`: no job ever writes this batch again, since the id was made for one job; so what is stored with the commit
    goes when the id has not been used for long, and is kept for good otherwise. An `app_id` that has committed a batch without
    it keeps its token for good all the same.
    """

    transactional_id: str
    owner_run: str
    app_id: str
    batch_id: int
    write_attempt: str = ""
    token_expires: bool = False

    def token(self) -> co.CommitToken:
        """Returns the part of the names that is stored with the commit, as it travels."""
        return co.CommitToken(app_id=self.app_id, batch_id=self.batch_id, expires=self.token_expires)
