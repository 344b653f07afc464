"""What happens in each numbered case, in a sentence or two: what is there before, what is done, what must follow.

The cases and their tests stand in `cases.py` and `cases_later.py`; docs/internals/cases.md shows both together.
"""

from __future__ import annotations

from typing import Final

STORIES: Final[dict[str, str]] = {
    # ---- A: ids and sessions
    "A1": (
        "Two allocators each ask for a block of producer ids. The blocks have 1,000 ids each, they do not "
        "overlap, and they grow."
    ),
    "A2": (
        "A block is used up while etcd cannot be reached. The answer is a retriable error, and no id is given a "
        "second time."
    ),
    "A3": (
        "Nine tenths of a block are used, and many clients ask at once. The allocator asks etcd for one block, "
        "not for many."
    ),
    "A4": (
        "etcd holds a block that is below the current one, negative, or too large. It is refused, and the current "
        "block still serves."
    ),
    "A5": (
        "A request for a block gets no answer. The next one waits for its back-off, and the block of the lost "
        "answer is never used."
    ),
    "A6": "An allocator dies after it has won a block. After its restart that block is not handed out again.",
    "A8": (
        "etcd is restored from a backup, and its counter with it. The next ids are still above all that were "
        "handed out."
    ),
    "A9": "A producer without a transactional id starts twice. It gets two producer ids, each with epoch 0.",
    "A10": "A session is asked for with an empty transactional id and a time-out. That is an invalid request.",
    "A11": "A session is asked for with a time-out of 0, -1, or above the maximum. It is refused by name.",
    "A12": (
        "A session of a new transactional id is asked for. The answer comes when the id is committed in the "
        "shard's log: epoch 0, number 1."
    ),
    "A13": "A client expects an old session of an id that no coordinator knows. It gets a new producer id and epoch 0.",
    "A14": (
        "An idle id gets one session after the other. The epoch rises by one each time, the producer id stays, "
        "and no number is given to two sessions."
    ),
    "A15": (
        "A client names the session that it expects, and asks twice with one nonce. The epoch rises once, and "
        "both answers are equal."
    ),
    "A16": "A client expects a session that another one has replaced. It is fenced.",
    "A17": "A client expects another producer id than the id has. It is fenced.",
    "A20": (
        "A new session begins while a transaction is open. It is given at once, the open transaction is aborted, "
        "and the number that the old session could count to is skipped."
    ),
    "A21": (
        "A new session begins while the markers of a committed transaction are on their way. It does not wait, "
        "and the commit stands."
    ),
    "A23": "The shard's log gives no answers while a session begins. When it answers again, the epoch has risen once.",
    "A25": (
        "A coordinator that does not own the shard is asked: NotCoordinator. One that is still loading it: "
        "CoordinatorLoadInProgress."
    ),
    # ---- B: idempotent append
    "B26": (
        "The last sequence is 1. A batch with sequence 5 is refused as out of order; one with sequence 2 is appended."
    ),
    "B27": "The leader has seen epoch 1 of a producer. A batch with epoch 0 is refused.",
    "B28": "The last sequence is 2^31-1. Sequence 1 is refused; sequence 0 is appended.",
    "B29": (
        "A batch begins 11 records before the wrap and ends behind it. It is appended, its repeat is a duplicate, "
        "and the next sequence is 10."
    ),
    "B30": (
        "Six batches, then one of three records, which is sent a second time. The second answer has the offset "
        "and the time of the first copy, and the log has not grown."
    ),
    "B32": "The last batch had the sequences 6 to 8. A batch with 7 and 8 is refused: it overlaps without being equal.",
    "B33": "A follower gets a batch that it has already seen under the same sequence. It takes what its leader wrote.",
    "B34": (
        "A replica that knows nothing of a producer gets its batch with sequence 2 by replication. It takes it, "
        "and knows the producer now."
    ),
    "B35": "A replica gets a batch that leaves a gap. It takes it; from a client the same batch would be refused.",
    "B36": "A producer comes with a higher epoch. Its first sequence there must be 0.",
    "B38": (
        "Nothing is known of a producer, and its first batch has sequence 3. It is refused, and the error names "
        "the log start, so that the client can tell deletion from loss."
    ),
    "B39": (
        "A producer was silent for longer than the expiry. It goes on with its next sequence, which is accepted, "
        "since what it wrote last is still known. (Kafka accepts any sequence then.)"
    ),
    "B40": "A producer's transaction is older than the expiry. The producer does not expire while it is open.",
    "B41": "Retention deletes the last segment that holds data of a producer. Its next sequence is still accepted.",
    "B42": (
        "An append fails because the disk is full. Log and producer state are as before, and the same batch is "
        "taken later."
    ),
    "B43": "A request holds two batches for one partition. It is refused as a whole.",
    "B44": "A batch with an older epoch is refused. The log end has not moved.",
    "B45": "Five batches are in flight, the first one fails, and the others overtake it. All land once, in order.",
    "B47": (
        "A batch is written, its answer is lost, and the leader dies while the next batch is sent. Each record is "
        "in the log once."
    ),
    "B48": (
        "Five batches are written, and all brokers restart. Each of the five is recognised as a duplicate, with "
        "its offset. Of seventeen at a leader that took over, sixteen have their offset, and the first one is known without."
    ),
    "B49": (
        "A batch has the producer, epoch and sequence of another one, and other content. That is a fatal error of "
        "the caller."
    ),
    "B50": (
        "The bytes of a batch are delivered to another topic or partition. The leader refuses them by their "
        "partition tag."
    ),
    # ---- C: coordinator
    "C51": (
        "A partition is enrolled under an unknown id, or with a producer id of another id. That is InvalidPidMapping."
    ),
    "C52": "A partition is enrolled by a session with a lower or higher epoch. It is fenced.",
    "C53": "A transaction is decided, and its markers are on their way. It takes no more partitions.",
    "C54": "The same partitions are enrolled again. Nothing is written.",
    "C55": (
        "The last transaction is complete. Enrolling a partition in the next one opens it, and its time-out "
        "begins then."
    ),
    "C57": (
        "COMMIT is answered when the decision is in the log, before any marker is sent. Readers see nothing until "
        "the marker is in."
    ),
    "C58": "The same for ABORT.",
    "C59": (
        "END of a transaction that enrolled nothing. It is closed with the outcome that was asked for, and stays "
        "closed."
    ),
    "C60": (
        "COMMIT is repeated after completion: the same answer. ABORT of the same number is refused: it is committed."
    ),
    "C61": "ABORT is repeated after completion: the same answer. COMMIT of the same number: TxnAborted.",
    "C63": "END by a session with a lower or higher epoch. It is fenced, and the transaction stays open.",
    "C66": (
        "A transaction is open for longer than its time-out. It is aborted, and the next number can be used at once."
    ),
    "C67": "The decision is on its way to the log when the time-out comes. The time-out leaves it alone.",
    "C68": (
        "The append of a time-out's abort gets no answer. The transaction is aborted in the end, and the session "
        "goes on with its epoch."
    ),
    "C69": "A commit arrives after the time-out has aborted. The answer is definite: aborted, go on with the next one.",
    "C71": (
        "The coordinator's clock steps back by minutes between the steps of transactions. Every step is still "
        "legal, and time-outs work."
    ),
    "C73": (
        "A coordinator dies after a decision. The next owner finds it in the log and sends the markers, in its "
        "own epoch."
    ),
    "C74": "A shard is loading. Questions about its transactions get CoordinatorLoadInProgress, not an empty list.",
    "C75": (
        "The shard's log has too few replicas. The coordinator is not available, and afterwards nothing is "
        "decided twice."
    ),
    "C76": "An append of a coordinator arrives after a newer one has begun. The leader of the log refuses it.",
    "C77": (
        "An id is idle for the expiry time. Its session is over, its outcomes are forgotten, and it goes on with "
        "the next number. What is open does not expire."
    ),
    "C79": "Very many time-outs are due at once. They are decided in portions, and none is lost.",
    "C80": (
        "The shard's log cannot be read. The shard stays away instead of serving a part of it. (Kafka serves what "
        "it read.)"
    ),
    "C81": "A producer sends under an expired id. The mapping is refused, and a new session goes on.",
    "C82": "An id has expired, and leaders still know its producer. The next session of the id writes without trouble.",
    "C83": (
        "The first batch of a transaction reaches a leader, which asks the coordinator. Refused: nothing is "
        "appended. Accepted: the partition is enrolled."
    ),
    "C84": (
        "No coordinator can be reached for the first batch. The producer gets a retriable error, and nothing is "
        "appended."
    ),
    "C85": "The coordinator's yes to an enrolment arrives after the abort's marker. The batch is refused.",
    "C87": (
        "The leader is deposed while it waits for the enrolment. The producer gets a retriable error, and nothing "
        "is visible."
    ),
    "C88": "A copy of END(n) arrives while n+1 is open. n+1 stays open, and END(n) still gets the outcome of n.",
    "C89": (
        "n is decided, its marker is delayed, and n+1 writes to the same partition and ends otherwise. Each has "
        "its own outcome."
    ),
    "C92": (
        "The coordinator's view does not show a partition. The marker is kept and sent later; only proof of "
        "deletion ends it."
    ),
    "C93": (
        "A leader holds a transaction that the coordinator does not know. The leader asks, and it is aborted "
        "within the bound."
    ),
    # ---- D: markers, stable offset, read_committed
    "D94": (
        "Two transactions are open, and the marker of the first is appended but not committed. The stable offset "
        "moves when the high watermark has passed the marker."
    ),
    "D95": (
        "Three transactions overlap and end in the order 1, 3, 2. The stable offset stays at the beginning of the "
        "second until it ends."
    ),
    "D96": (
        "A leader has seen a marker of shard epoch 5, and dies. The next leader refuses a marker of epoch 4 and "
        "takes those of 5 and 6."
    ),
    "D99": "A producer has a transaction open and sends a batch outside of it. That is refused.",
    "D100": "Transactions end that wrote nothing on a partition. The aborted index has no entry for them.",
    "D101": "A writer aborts again and again while a reader follows. The reader never gets an aborted record.",
    "D102": (
        "The write of the aborted index fails, or the process dies before it. Recovery rebuilds the index from the log."
    ),
    "D104": "An aborted transaction spans many segments. A fetch that begins in any of them is answered with its name.",
    "D105": (
        "Entries of the aborted index have growing marker offsets. A truncation removes the entries whose markers "
        "it cuts off."
    ),
    "D106": (
        "One transaction is open, a later one is committed. A read_committed reader ends before the first open "
        "record, and a look-up by time beyond it finds nothing."
    ),
    "D108": (
        "A transaction over ten partitions is aborted, and the next one committed. Each partition has both "
        "markers, and readers see the second."
    ),
    "D109": (
        "500 records are copied with their offsets in transactions of which every second one is aborted. The copy "
        "has each record once."
    ),
    "D110": (
        "A second instance takes the id of the first. Commit, send, offsets and enrolment of the first are refused."
    ),
    "D111": "A transaction's time-out has passed. The next send fails, and the following transaction works.",
    "D113": "All brokers die, a batch expires, and the transaction is aborted. The next transaction works.",
    "D114": (
        "The shard's log is below its minimum of replicas. No session begins; afterwards the older producer is fenced."
    ),
    "D117": (
        "A transaction is open, and more is committed behind it. A read_committed fetch ends at the stable "
        "offset, a read_uncommitted one at the high watermark."
    ),
    "D119": (
        "A range below the stable offset is read, the leader dies, and the range is read again from the next one. "
        "Records and the list of aborted transactions are equal."
    ),
    "D120": "A commit waits for visibility. A read that begins after its answer sees the records.",
    # ---- E: durable state
    "E121": (
        "A transaction is open when the producer state is stored and loaded. It is still open, and its next "
        "sequence is accepted."
    ),
    "E122": (
        "A snapshot of the producer state is cut short or garbled. It is refused, and recovery takes an older one "
        "and the batches since."
    ),
    "E125": (
        "A replica that lost its disk replays a compacted log. It knows each producer's epoch and last sequence, and each "
        "transaction that has ended, as the others do."
    ),
    "E127": (
        "The process is killed, or the power goes, after any step of a run. After the restart the log is a sound "
        "prefix of what was written."
    ),
    # ---- F: replication
    "F128": (
        "A new leader begins. A replica joins its ISR only with everything that was there when the leader's epoch "
        "began."
    ),
    "F129": (
        "The ISR is below min_insync_replicas. The high watermark stands still until a join is committed in etcd, "
        "and then moves."
    ),
    "F130": (
        "An ISR update is in flight or refused. The committed ISR stays, and the larger set counts for the high "
        "watermark meanwhile."
    ),
    "F131": "An ISR update is in flight. No second one is sent, and a shrink counts only when it is committed.",
    "F132": "A follower at the log end is idle for longer than the lag time. It stays in the ISR.",
    "F133": "A follower of an older incarnation or session acknowledges. The leader's state does not change.",
    "F135": (
        "A follower's last epoch is unknown to the leader, or ended earlier there. The leader answers where the "
        "logs part."
    ),
    "F136": "The table of leader epochs grows, is cut at both ends, stored and loaded. Epochs and offsets only grow.",
    "F138": (
        "The ISR is too small before an append with acks=all: nothing is written. It shrinks after the append: "
        "the outcome is unknown, and the retry is deduplicated."
    ),
    "F139": "A producer is configured with acks=2. That is refused by name.",
    "F142": (
        "No member of the ISR lives, and an eligible replica does. It is elected; a replica that is neither never is."
    ),
    "F143": "The registration of the last known leader outlives its process. It is not elected.",
    # ---- G: the log
    "G144": "A leader's batch does not begin where the follower's log ends. It is refused, and nothing is written.",
    "G145": (
        "Retention by time, size or start offset. Whole segments go, oldest first, and never what is not committed."
    ),
    "G146": "Records above the log end are to be deleted. The call is refused; what was deleted stays so after a restart.",
    "G149": "A segment ends by size, age, a full index, or when an offset is too far from its base.",
    "G150": (
        "All records of a committed transaction were replaced. They go; the marker stays for `delete_retention_ms`, and for "
        "longer while it is the last one of its id, a producer snapshot still holds the transaction open, or a replica is "
        "away that may."
    ),
    "G151": (
        "A transaction was aborted in a compacted topic. Its records go in the first pass, whatever their keys, and replace "
        "nothing. Its marker goes in a later pass."
    ),
    "G152": (
        "All records of the newest batch of a producer were replaced. The batch stays, empty, with its sequences, until a "
        "newer batch of the producer is compacted too."
    ),
    "G154": (
        "A record with a null value deletes its key. It stays for `delete_retention_ms` after the first pass that met it, and "
        "never goes while an older value may be left, here or on a replica that is away."
    ),
    "G155": (
        "The broker or its helper dies, or its disk fails, at any write, sync, rename or removal of a compaction. After the "
        "restart every last record is there, once."
    ),
    # ---- H: groups and offsets
    "H156": (
        "A member joins without an id. That is refused by name, and no id is handed out: the client makes one for each "
        "membership, and with it the same join makes a member."
    ),
    "H157": (
        "A heartbeat names a member that the group does not know, or one of another group, or an epoch that is over. It "
        "is refused."
    ),
    "H158": (
        "Partitions move between members. Heartbeats of all of them are answered as always, and who keeps a partition "
        "reads on: there is no time in which the group stands still."
    ),
    "H159": (
        "A static member leaves for a while and comes back under a new member id. It has its partitions again and no "
        "other member moves; the old id is fenced. While the old one has not left, the new one is asked to wait."
    ),
    "H160": (
        "A group is full. One more member is refused, and those that are there go on; a static member that was away comes "
        "back."
    ),
    "H162": "A heartbeat has an epoch that is too high or too old. It is fenced; a new membership of the same client goes on.",
    "H163": (
        "A partition moves from one member to another. The new owner gets it when the old one has said that it let go, "
        "or when the session of the old one has ended, and not before."
    ),
    "H164": (
        "While a group has members, only they commit its offsets. A commit without a member makes a simple group where "
        "there are none; a commit by an unknown member is refused, and so is one of a member whose group has expired."
    ),
    "H165": (
        "Offsets are committed while partitions move, plainly and in a transaction. They count for what the member owns, "
        "also for what it has to let go and has not yet."
    ),
    "H167": (
        "Offsets belong to an open transaction. A fetch that requires stable offsets is refused until the marker; "
        "then it gets the new or the old ones."
    ),
    "H168": (
        "A transaction commits an offset, a plain commit follows, and the transaction's marker comes last. The "
        "plain commit stays."
    ),
    "H170": (
        "Offsets with metadata that is too long are refused one by one. An offset that an open transaction holds "
        "is not deleted, nor is one of a topic that members of the group read."
    ),
    "H171": (
        "A commit counts for a partition from the epoch in which the member got it to the member's own epoch. After the "
        "partition was handed over it is refused."
    ),
    # ---- K: end to end with Spark
    "K177": "A task attempt fails after it has written rows, and runs again. The batch holds each row once.",
    "K178": (
        "A second attempt of a task also finishes. Only the rows of the attempts that the commit names are visible."
    ),
    "K179": "The driver dies after the commit, before Spark has noted it. The batch runs again and changes nothing.",
    "K180": "The driver dies before the commit. The lease aborts what its tasks wrote, and the batch runs again.",
    "K182": "An executor dies in the middle of a batch. Its tasks run elsewhere, and each row is there once.",
    "K184": "A source starts again in the middle of a micro-batch. It reads the same range again.",
    "K185": (
        "Messages are lost, delayed and doubled, processes killed, disks and clocks disturbed, by a seed. No "
        "promise is broken."
    ),
}
