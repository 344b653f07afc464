"""The rules of replication and elections, each of which can be taken out to see what it is good for.

Rules of this file: one boolean per rule, true as the project builds it; a field says what the rule demands and what a
careless build does instead.  The model asks these booleans and nothing else about which build it is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Rules:
    """How careful the build is."""

    # --- elections ---

    eligible_is_kept: bool = True
    """Whoever leaves an ISR that falls below the minimum stays eligible.  Else the ISR alone may lead (as in Kafka before
    KIP-966), though everybody who was in it when it fell holds all that is committed."""

    eligible_is_cleared: bool = True
    """An ISR of at least the minimum has nobody eligible beside it.  Else the set only grows."""

    elects_only_heard: bool = True
    """A registered broker that never answered this controller is no candidate.  Else a dead registration is elected."""

    isr_only_heard: bool = True
    """Nor is it left in the ISR that an election writes.  Else any registered member of the ISR is."""

    power_cut_is_noticed: bool = True
    """A log that a power cut may have shortened does not count as intact.  Else every replica that comes
    back is as good as ever."""

    empty_disk_is_noticed: bool = True
    """A data directory that is younger than the reference counts as lost.  Else an empty disk is as good as a full one."""

    waits_for_all: bool = True
    """Without a sound candidate everybody in ISR and eligible set is asked first.  Else the first who answer are compared."""

    longest_unclean_wins: bool = True
    """Of unclean logs the greatest (last epoch, log end) wins.  Else the preferred replica does."""

    majority_declares_dead: bool = True
    """Only who reaches a majority of the registered brokers declares silent ones dead, or takes the role over.  Else
    anybody."""

    config_is_compared: bool = True
    """A controller's write compares the minimum that it was computed with.  Else it may clear the eligible
    set by an old one."""

    epoch_above_told: bool = True
    """The epoch of an election is above every epoch that those who are asked know, from their logs or otherwise.  Else one
    above etcd's, which may have been restored."""

    refusals_are_told: bool = True
    """A leader that cannot lead, since it knows a newer epoch than etcd's, is replaced or elected anew.  Else it is taken for
    one that lives."""

    old_epoch_never_leads: bool = True
    """Nobody leads in an epoch that its log has seen.  Else offsets are given again in one epoch when etcd was restored."""

    # --- a restore of etcd that is noticed ---

    restored_value_is_not_believed: bool = True
    """Who may lead after it is asked of the logs alone.  Else of the ISR that the backup names."""

    all_are_asked_after_restore: bool = True
    """Every replica is asked.  Else the first who answer are compared."""

    restore_is_noticed_first: bool = True
    """Only answers of processes that have noticed the restore count.  Else one who answers may lead on, and commit."""

    reached_epoch_counts: bool = True
    """Logs are compared by the leader epoch that they have reached, which a note says where nobody wrote in it.  Else by the
    epoch of their last record."""

    followers_note_epochs: bool = True
    """Followers note it too, before they acknowledge anything in it.  Else only leaders do, one with a full disk does not."""

    old_epochs_commit_at_once: bool = True
    """The high watermark of a new leader goes in one step to where it began, or beyond.  Else through what older epochs left,
    record by record."""

    # --- seals ---

    seal_counts_as_intact: bool = True
    """A leader that sealed its log below the minimum is intact after a power cut.  Else the seal proves nothing."""

    sealed_is_synced: bool = True
    """What is sealed was synced first.  Else it is only written."""

    seal_tells_its_end: bool = True
    """A log that is shorter than its seal says is not intact.  Else the seal is good for whatever is left."""

    seal_is_broken_first: bool = True
    """Nothing is committed before the seal is durably removed.  Else it is removed some time after."""

    seal_is_of_one_epoch: bool = True
    """A seal is good as long as etcd names the leader epoch in which it was written.  Else for as long as it is there."""

    # --- the high watermark ---

    watermark_needs_min_isr: bool = True
    """Below the minimum the high watermark stands still.  Else it moves with whoever is left."""

    watermark_needs_no_eligible: bool = True
    """While etcd names somebody eligible it stands still.  Else it moves as soon as the minimum is lowered."""

    minimum_is_heard_in_order: bool = True
    """Who hears of another minimum has heard of every ISR that was written before.  Else a raised minimum counts members
    whom the controller has dropped under the lower one."""

    small_proposal_stops_watermark: bool = True
    """While a change to an ISR below the minimum is out, it stands still.  Else a minimum that is raised meanwhile counts
    members whom that change has dropped, and has made nobody eligible for."""

    leader_clears_eligible: bool = True
    """A leader whose ISR has the minimum, while somebody is eligible, writes that nobody is.  Else only a change of the
    ISR does, and a lowered minimum lets nothing move."""

    watermark_waits_for_maximal_isr: bool = True
    """While the answer to an ISR change is out, both sets must have a record.  Else the proposed ISR counts at once."""

    old_acks_do_not_count: bool = True
    """What an earlier incarnation acknowledged says nothing of a later one.  Else it counts on."""

    only_synced_counts: bool = True
    """In fsync mode only what is synced is acknowledged and counted.  Else what is written."""

    joins_at_epoch_start: bool = True
    """A replica joins the ISR when it has everything from before the leader's epoch.  Else when it has reached the high
    watermark, which a new leader does not know yet."""

    old_epochs_are_fenced: bool = True
    """A follower obeys no leader of an epoch older than one it knows.  Else it obeys whoever speaks."""

    def without(self, *names: str) -> Rules:
        """These rules with some taken out."""
        return replace(self, **dict.fromkeys(names, False))

    def off(self) -> tuple[str, ...]:
        """The names of the rules that are taken out."""
        return tuple(field.name for field in fields(self) if not getattr(self, field.name))


ALL_RULES = Rules()
