"""Every step that can happen next: messages arrive in any order, and the adversary does what its budget allows.

Rules of this file: it decides nothing; coordinator, leader and clients do.  It moves their messages, and it is complete:
what can happen in a run within the budget is a path here.  What is not a step of its own, and why that loses nothing:
- A request of a client is on its way as long as the client waits, and its answer arrives with it or is lost: the client
  does nothing in between, so a late answer is a late request.  The same holds for the markers of a coordinator.
- An enrolment is three steps, since markers, elections and fail-overs come in between: the leader asks and is heard, the
  record is durable, the answer is there.  (A question that is heard later is one that was asked later.)
- A record is in the shard log and its command answered at once, unless a fail-over comes in between: nobody else sees
  the difference.  What a deposed coordinator decides is refused by the log, and then it is as if it had not asked.
- A late copy is not kept in the network: any message that was ever delivered may come again, as a fault.
- A coordinator that crashed is one that lives and says nothing more, so a fail-over always leaves the old one alive.
- A decision is completed with its last confirmed marker.
- A lazy record is logged at any time, or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.model import coordinator as core
from tests.model import invariants, leader
from tests.model.clients import Client, Producer, SparkJob
from tests.model.explorer import Broken, Step
from tests.model.rules import Rules
from tests.model.scenarios import Scenario
from tests.model.state import (
    Append,
    Ask,
    Batch,
    Command,
    Coordinator,
    Decided,
    Enrol,
    Enrolled,
    Marker,
    Message,
    Partition,
    Record,
    Reply,
    Send,
    Shard,
    State,
    in_order,
)

Steps = Iterator[tuple[Step, State]]


class Protocol:
    """The model of one scenario under a set of rules, as the explorer wants it."""

    def __init__(self, scenario: Scenario, rules: Rules) -> None:
        self.scenario = scenario
        self.rules = rules

    def initial(self) -> Iterable[State]:
        partitions = (Partition(),) * self.scenario.partitions
        nothing: frozenset[Message] = frozenset()
        for clients in self.scenario.starts:
            first = (Coordinator(1, Record()),)
            yield State(Shard(), first, partitions, clients, nothing, nothing, self.scenario.budget)

    def steps(self, state: State) -> Steps:
        yield from self._messages_arrive(state)
        yield from self._lazy_records_are_logged(state)
        yield from self._coordinators_send_markers(state)
        yield from self._leaders_heal(state)
        yield from self._time_passes(state)
        yield from self._late_copies_arrive(state)
        yield from self._leadership_changes(state)
        yield from self._clients_lose_patience(state)

    def broken(self, state: State) -> list[Broken]:
        return invariants.broken(state, self.rules)

    def broken_at_rest(self, state: State) -> list[Broken]:
        return invariants.broken_at_rest(state, self.rules)

    # --- messages arrive --------------------------------------------------------------------------------------------

    def _messages_arrive(self, state: State) -> Steps:
        for client in state.clients:
            for request in client.requests():
                yield from self._deliver(state, request)
        for message in in_order(state.network):
            yield from self._deliver(state.remove(message), message)

    def _late_copies_arrive(self, state: State) -> Steps:
        """Any message that has been delivered comes once more, if it is not on its way and makes a difference."""
        after = state.spend("repeats")
        if after is None:
            return
        on_their_way = state.network.union(*(client.requests() for client in state.clients))
        for message in in_order(state.sent - on_their_way):
            for step, changed in self._deliver(after, message):
                if changed._replace(sent=after.sent) != after:
                    yield Step("a late copy: " + step.text, step.about, True), changed

    def _deliver(self, state: State, message: Message) -> Steps:
        state = state if isinstance(message, Append) else state.delivered(message)
        match message:
            case Batch():
                yield from self._batch(state, message)
            case Enrolled():
                yield from self._enrolled(state, message)
            case Append():
                yield from self._late_append(state, message)
            case Send():
                yield from self._late_marker(state, message)
            case _:
                for coordinator in state.coordinators:
                    yield from self._command(state, coordinator, message)

    # --- a partition's leader ---------------------------------------------------------------------------------------

    def _batch(self, state: State, batch: Batch) -> Steps:
        """A batch at its leader: appended, confirmed, refused, or parked while the coordinator is asked."""
        partition = state.partitions[batch.partition]
        taken = leader.take_batch(partition, batch, self.rules)
        if taken.reply is not None:
            after = state.with_partition(batch.partition, taken.partition)
            step = Step("P{0}'s leader answers {1} to {2}", (batch.partition, taken.reply.kind, batch))
            yield from self._answer_client(after, batch, taken.reply, step, changed=taken.partition != partition)
        elif not self._is_parked(state, batch):
            yield from self._deliver(state, Enrol(batch, partition.leader_epoch))

    def _is_parked(self, state: State, batch: Batch) -> bool:
        """Whether this batch already waits at the present leader for the coordinator's answer."""
        epoch = state.partitions[batch.partition].leader_epoch
        waiting = [found.command if isinstance(found, Append) else found for found in state.network]
        return any(
            isinstance(found, Enrol | Enrolled) and found.batch == batch and found.leader_epoch == epoch
            for found in waiting
        )

    def _enrolled(self, state: State, answer: Enrolled) -> Steps:
        batch = answer.batch
        partition = state.partitions[batch.partition]
        taken = leader.take_answer(partition, answer, self.rules)
        reply = taken.reply or core.WAIT
        after = state.with_partition(batch.partition, taken.partition)
        about = (answer.reply.kind, batch.partition, batch, reply.kind)
        step = Step("the coordinator's {0} reaches P{1}'s leader, which answers {3} to {2}", about)
        yield from self._answer_client(after, batch, reply, step, changed=taken.partition != partition)

    def _leaders_heal(self, state: State) -> Steps:
        """A leader that holds a transaction open past a bound asks: with a marker on its way that takes a slow one."""
        if not self.rules.name_transactions:
            return
        for index, partition in enumerate(state.partitions):
            view = leader.replay(partition.log, True)
            for n in sorted(view.open):
                late = state.spend("slow_markers") if self._marker_is_on_its_way(state, n, index) else state
                if late is None:
                    continue
                for coordinator in state.coordinators:
                    if coordinator.epoch >= view.coordinator_epoch:
                        yield from self._command(late, coordinator, Ask(n, index))

    def _marker_is_on_its_way(self, state: State, n: int, index: int) -> bool:
        return any(
            known.n == n and index in known.partitions and (n, index) not in coordinator.acked
            for coordinator in state.coordinators
            for known in coordinator.record.decided
        )

    # --- the coordinators -------------------------------------------------------------------------------------------

    def _command(self, state: State, coordinator: Coordinator, command: Command) -> Steps:
        """A command at a coordinator: answered from memory, or once its record is in the shard log."""
        if coordinator.busy:
            return
        plan = core.plan(coordinator.record, command, self.rules)
        if plan.record is not None and plan.lazy:
            step = Step("coordinator {0} answers {1} to {2} at once", (coordinator.epoch, plan.reply.kind, command))
            after = state.with_coordinator(coordinator._replace(record=plan.record))
            yield from self._answer(after, coordinator.epoch, command, plan.reply, step, changed=True)
        elif plan.record is not None:
            step = Step("coordinator {0} takes {1}", (coordinator.epoch, command))
            yield from self._append(state, Append(coordinator.epoch, plan.record, command, plan.reply), step)
        elif plan.reply.kind != "WAIT":
            step = Step("coordinator {0} answers {1} to {2}", (coordinator.epoch, plan.reply.kind, command))
            yield from self._answer(state, coordinator.epoch, command, plan.reply, step, changed=False)

    def _append(self, state: State, append: Append, step: Step) -> Steps:
        """A record goes to the shard log, and its command is answered: or the shard changes hands before that."""
        if append.epoch < state.shard.fence:
            return  # refused, as everything will be that this coordinator decides: it has nothing more to say
        yield from self._land(state, append, step)
        failing = state.spend("failovers")
        if failing is None:
            return
        text = step.text + "; before anybody hears of that, coordinator {2} takes over"
        step = Step(text, (*(*step.about, None)[:2], append.epoch + 1), True)
        yield step, self._taken_over(self._remembered(failing, append))
        text = step.text + "; the record is still on its way to the log"
        on_its_way = self._taken_over(self._silenced(failing, append))
        if append.epoch >= on_its_way.shard.fence:
            yield step._replace(text=text), on_its_way

    def _land(self, state: State, append: Append, step: Step) -> Steps:
        """The shard log takes a record, and a coordinator that lives answers."""
        after = self._remembered(state, append)
        if after.coordinator(append.epoch) is None:
            yield step, after
        else:
            yield from self._answer(after, append.epoch, append.command, append.reply, step, changed=True)

    def _late_append(self, state: State, append: Append) -> Steps:
        """A record that was on its way when the shard changed hands arrives: refused, if the log knows of that."""
        if append.epoch >= state.shard.fence:
            step = Step(
                "the shard log takes the late record of coordinator {0} for {1}", (append.epoch, append.command)
            )
            yield from self._land(state, append, step)
        else:
            yield Step("the shard log refuses the late record of coordinator {0}", (append.epoch,)), state

    def _remembered(self, state: State, append: Append) -> State:
        """With the record in the shard log, and in the memory of its coordinator if that lives."""
        state = state._replace(shard=self._written(state.shard, append))
        coordinator = state.coordinator(append.epoch)
        if coordinator is None:
            return state
        decided = {known.n for known in append.record.decided}
        acked = frozenset((n, index) for n, index in coordinator.acked if n in decided)
        return state.with_coordinator(Coordinator(append.epoch, append.record, acked))

    def _silenced(self, state: State, append: Append) -> State:
        """With the record on its way, and its coordinator waiting for it."""
        coordinator = state.coordinator(append.epoch)
        waiting = state if coordinator is None else state.with_coordinator(coordinator._replace(busy=True))
        return waiting.add(append)

    def _written(self, shard: Shard, append: Append) -> Shard:
        decided = {(known.n, known.outcome) for known in append.record.decided}
        return Shard(append.epoch, core.durable(append.record, self.rules), shard.decisions | decided)

    def _lazy_records_are_logged(self, state: State) -> Steps:
        """What was answered at once gets into the log, unless something else is logged before."""
        owner = state.coordinators[-1]
        if owner.record.ongoing and not owner.busy and owner.record.enrolled - state.shard.record.enrolled:
            step = Step("coordinator {0} logs what it has answered", (owner.epoch,))
            yield from self._append(state, Append(owner.epoch, owner.record, None, core.OK), step)

    def _coordinators_send_markers(self, state: State) -> Steps:
        for coordinator in state.coordinators:
            for decided in coordinator.record.decided:
                missing = [index for index in sorted(decided.partitions) if (decided.n, index) not in coordinator.acked]
                for index in missing:
                    yield from self._marker(state, coordinator, decided, index)
                if not missing:
                    step = Step("coordinator {0} has all markers of transaction {1}", (coordinator.epoch, decided.n))
                    yield from self._completed(state, coordinator, decided, step)

    def _marker(self, state: State, coordinator: Coordinator, decided: Decided, index: int) -> Steps:
        """A marker goes to a leader until it is confirmed; its answer may be lost, and a deposed leader may answer."""
        marker = Marker(decided.n, decided.outcome, decided.winners, coordinator.epoch)
        partition = state.partitions[index]
        if coordinator.epoch < state.shard.fence:
            yield from self._deposed_marker(state, marker, index)
            return
        taken = leader.take_marker(partition, marker, self.rules)
        confirmed = coordinator._replace(acked=coordinator.acked | {(decided.n, index)})
        if leader.deposed_confirms(partition, marker, self.rules):
            step = Step("P{0}'s DEPOSED leader says OK to {1}", (index, marker))
            yield from self._completed(state.with_coordinator(confirmed), confirmed, decided, step)
        if taken.reply is None or taken.reply.kind != "OK":
            return
        after = state.with_partition(index, taken.partition).delivered(Send(index, marker))
        step = Step("P{0}'s leader takes {1}", (index, marker))
        yield from self._completed(after.with_coordinator(confirmed), confirmed, decided, step)
        losing = after.spend("losses")
        if losing is not None and taken.partition != partition:
            yield Step("P{0}'s leader takes {1}, its answer is lost", (index, marker), True), losing

    def _deposed_marker(self, state: State, marker: Marker, index: int) -> Steps:
        """The marker of a coordinator that was deposed, and completes nothing: one that comes very late."""
        after = state.spend("slow_markers")
        taken = leader.take_marker(state.partitions[index], marker, self.rules)
        if after is not None and taken.partition != state.partitions[index]:
            step = Step("P{0}'s leader takes {1} of a deposed coordinator", (index, marker), True)
            yield step, after.with_partition(index, taken.partition)

    def _completed(self, state: State, coordinator: Coordinator, decided: Decided, step: Step) -> Steps:
        """COMPLETE with the last marker, or nothing more as long as markers are missing or the core is at work."""
        if coordinator.busy or any((decided.n, index) not in coordinator.acked for index in decided.partitions):
            yield step, state
            return
        record = core.complete(coordinator.record, decided, self.scenario.keep)
        step = step._replace(text=step.text + ", which completes it")
        yield from self._append(state, Append(coordinator.epoch, record, None, core.OK), step)

    def _late_marker(self, state: State, late: Send) -> Steps:
        taken = leader.take_marker(state.partitions[late.partition], late.marker, self.rules)
        step = Step("P{0}'s leader gets {1}", (late.partition, late.marker))
        yield step, state.with_partition(late.partition, taken.partition)

    # --- answers ----------------------------------------------------------------------------------------------------

    def _answer(
        self, state: State, epoch: int, command: Command | None, reply: Reply, step: Step, *, changed: bool
    ) -> Steps:
        match command:
            case None:
                yield step, state
            case Enrol():
                yield step, self._answer_leader(state, Enrolled(command.batch, command.leader_epoch, epoch, reply))
            case Ask():
                yield from self._healed(state, epoch, command, reply)
            case _:
                yield from self._answer_client(state, command, reply, step, changed=changed)

    def _answer_leader(self, state: State, answer: Enrolled) -> State:
        """On its way to the leader that asked; a deposed one has no use for it, since its appends are not committed."""
        batch = answer.batch
        return state.add(answer) if answer.leader_epoch == state.partitions[batch.partition].leader_epoch else state

    def _answer_client(self, state: State, request: Message, reply: Reply, step: Step, *, changed: bool) -> Steps:
        """The client hears the answer, or loses it: which is a fault only when there was something to hear."""
        clients = tuple(self._told(client, request, reply) for client in state.clients)
        if clients == state.clients:
            yield step, state
            return
        yield step, state._replace(clients=clients)
        losing = state.spend("losses") if changed else None
        if losing is not None:
            yield step._replace(text=step.text + ", and the answer is lost", fault=True), losing

    def _told(self, client: Client, request: Message, reply: Reply) -> Client:
        if isinstance(request, Enrol | Enrolled | Append | Send):
            return client
        return client.answered(request, reply)

    def _healed(self, state: State, epoch: int, ask: Ask, reply: Reply) -> Steps:
        if reply.kind != "COMMITTED" and reply.kind != "ABORTED":
            return
        winners = reply.winners if self.rules.heal_answer_carries_winners else None
        marker = Marker(ask.n, reply.kind, winners, epoch)
        taken = leader.take_marker(state.partitions[ask.partition], marker, self.rules)
        step = Step("P{0}'s leader asks coordinator {1} and heals with {2}", (ask.partition, epoch, marker))
        yield step, state.with_partition(ask.partition, taken.partition)

    # --- time and the adversary -------------------------------------------------------------------------------------

    def _time_passes(self, state: State) -> Steps:
        """A transaction times out: by fault while its client is at work, and in time when nobody will end it."""
        owner = state.coordinators[-1]
        if owner.busy or not owner.record.ongoing:
            return
        abandoned = all(client.finished for client in state.clients)
        after = state if abandoned else state.spend("time_outs")
        if after is not None:
            record = core.decide(owner.record, "ABORTED", ())
            step = Step("transaction {1} times out at coordinator {0}", (owner.epoch, record.number), not abandoned)
            yield from self._append(after, Append(owner.epoch, record, None, core.OK), step)

    def _leadership_changes(self, state: State) -> Steps:
        failing, electing = state.spend("failovers"), state.spend("elections")
        if failing is not None:
            epoch = state.coordinators[-1].epoch + 1
            yield Step("coordinator {0} takes over", (epoch,), True), self._taken_over(failing)
        if electing is not None:
            for index in range(len(state.partitions)):
                yield Step("P{0} gets a new leader", (index,), True), self._elected(electing, index)

    def _taken_over(self, state: State) -> State:
        """A new life of the shard: its epoch record fences all earlier ones, then it replays the log, then it answers."""
        new = Coordinator(state.coordinators[-1].epoch + 1, core.replayed(state.shard.record, self.rules))
        if self.rules.epoch_record_before_answer:
            state = state._replace(shard=state.shard._replace(fence=new.epoch))
        return state._replace(coordinators=(*state.coordinators, new))

    def _elected(self, state: State, index: int) -> State:
        """A new leader has the log; the old one lives on with it, which matters only if it ever answers anything."""
        partition = state.partitions[index]
        deposed = None if self.rules.marker_always_appended else partition.log
        waiting = frozenset(
            message
            for message in state.network
            if not (isinstance(message, Enrolled) and message.batch.partition == index)
        )
        elected = Partition(partition.log, partition.leader_epoch + 1, deposed)
        return state.with_partition(index, elected)._replace(network=waiting)

    def _clients_lose_patience(self, state: State) -> Steps:
        for index, client in enumerate(state.clients):
            if isinstance(client, Producer):
                yield from self._gives_up(state, index, client)
            else:
                yield from self._driver_dies(state, index, client)

    def _gives_up(self, state: State, index: int, client: Producer) -> Steps:
        after = state.spend("give_ups")
        if after is None or client.finished or not client.n or client.step == client.partitions:
            return
        clients = (*state.clients[:index], client.given_up(), *state.clients[index + 1 :])
        step = Step("the producer gives up on {0}, which is still on its way", (client.requests()[0],), True)
        yield step, after.add(client.requests()[0])._replace(clients=clients)

    def _driver_dies(self, state: State, index: int, client: SparkJob) -> Steps:
        after = state.spend("crashes")
        if after is None or client.finished or client.attempt == client.attempts:
            return
        for request in client.driver_requests():
            after = after.add(request)
        clients = (*state.clients[:index], client.next_attempt(), *state.clients[index + 1 :])
        step = Step("the driver dies in attempt {0}, and starts again", (client.attempt,), True)
        yield step, after._replace(clients=clients)
