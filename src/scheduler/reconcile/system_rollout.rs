//! How one group of a job that runs on every node comes to its newest version: how many nodes may get it now, whether they
//! get canaries, what empty nodes get, and the group's state in the deployment. Refuses to know which nodes have room.

use super::rollout::Rollout;
use model::alloc::{Allocation, ClientStatus};
use model::deployment::DeploymentGroup;
use model::id::DeploymentId;
use model::job::{Job, TaskGroup};
use model::time::{Span, Wall};

/// What is placed where a node lacks an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    Nothing,
    NewestVersion {
        canary: bool,
    },
    /// The version of the allocation that was there before.
    PreviousVersion,
}

/// The state of the group as it was found, and what is done about it.
#[derive(Default)]
pub struct GroupRollout {
    /// What new and updated allocations become part of.
    pub joined: Option<DeploymentId>,
    state: DeploymentGroup,
    /// None: as many as there are.
    most: Option<u64>,
    /// Nodes that have nothing may get the newest version.
    open: bool,
    found: GroupProgress,
    replaced: u64,
    /// Outdated, and the newest version has no room beside what else is there.
    without_room: u64,
    placed: u64,
}

/// The group as it was.
#[derive(Default)]
pub struct GroupProgress {
    /// Nodes that may run the group.
    eligible_nodes: u64,
    /// Something of the newest version has been placed before.
    known: bool,
    pub outdated: u64,
    pub in_place: u64,
    /// Running allocations of the deployment whose health is not known yet.
    undecided: u64,
    /// An allocation of the deployment is unhealthy, and nothing has taken its place.
    has_failed: bool,
    /// An allocation of the deployment is unhealthy and still runs.
    has_unhealthy: bool,
    /// Living canaries.
    living_canaries: u64,
    /// Nodes that got the newest version in another's place within the last `stagger`.
    recent: u64,
    /// When the first of the `recent` nodes does not count any more.
    stagger_until: Option<Wall>,
}

impl GroupProgress {
    pub fn new(eligible_nodes: u64, known: bool) -> GroupProgress {
        GroupProgress { eligible_nodes, known, ..GroupProgress::default() }
    }

    pub fn count(&mut self, alloc: &Allocation, rollout: &Rollout) {
        if !rollout.contains(alloc) || alloc.server_terminal() {
            return;
        }
        let healthy = alloc.health.and_then(|h| h.healthy);
        let lives = !alloc.client_terminal();
        self.undecided += u64::from(lives && healthy.is_none());
        self.has_failed |= healthy == Some(false) && alloc.next.is_none();
        self.has_unhealthy |= healthy == Some(false) && lives;
        self.living_canaries += u64::from(lives && rollout.is_unpromoted_canary(alloc));
    }

    /// Notes an allocation of the newest version that replaced another. One with a creation time in the future was placed under a
    /// wrong clock: `stagger` does not wait for it.
    pub fn count_replacement(&mut self, alloc: &Allocation, stagger: Span, now: Wall) {
        let over = alloc.create_time + stagger;
        if alloc.create_time <= now && over > now {
            self.recent += 1;
            self.stagger_until = Some(self.stagger_until.map_or(over, |first| first.min(over)));
        }
    }
}

impl GroupRollout {
    pub fn new(
        (job, group): (&Job, &TaskGroup),
        rollout: &Rollout,
        new: DeploymentId,
        mut found: GroupProgress,
    ) -> GroupRollout {
        let Some(policy) = rollout.policy(group) else {
            return GroupRollout { open: true, found, ..GroupRollout::default() };
        };
        let (mut state, existed) = rollout.state_of(group);
        let begins = found.outdated + found.in_place > 0 || !found.known;
        // another group's deployment is none of a group that has its version and is not to change
        let joined = match rollout.active() {
            Some(active) => (existed || begins).then_some(active),
            None => (rollout.has_no_deployment() && begins && found.eligible_nodes > 0).then_some(new),
        };
        state.desired_total = found.eligible_nodes;
        if !existed && state.progress_deadline > Span::ZERO {
            // a long stagger must not count as a missed progress deadline
            state.progress_deadline = state.progress_deadline.max(policy.stagger + policy.healthy_deadline);
        }
        let percent = u64::try_from(policy.canary).unwrap_or(0);
        let tries = if existed {
            state.awaits_promotion()
        } else {
            percent > 0 && found.outdated > 0 && !rollout.has_succeeded(job)
        };
        if tries && joined.is_some() && found.eligible_nodes > 0 {
            state.desired_canaries = found.eligible_nodes.saturating_mul(percent).div_ceil(100);
        }
        found.stagger_until =
            found.stagger_until.filter(|_| !found.has_failed && rollout.may_place_canaries());
        let busy = found.undecided.max(found.recent);
        let parallel = u64::try_from(policy.max_parallel).unwrap_or(0).saturating_sub(busy);
        let most = match state.awaits_promotion() {
            _ if found.has_failed || !rollout.may_place_canaries() => 0,
            true => parallel.min(state.desired_canaries.saturating_sub(found.living_canaries)),
            false => parallel,
        };
        let open = match rollout.may_place_canaries() {
            true => !state.awaits_promotion(),
            // a failed version is placed on no further node while an older one can stay
            false => !rollout.is_paused() && found.outdated == 0,
        };
        GroupRollout { joined, state, most: Some(most), open, found, ..GroupRollout::default() }
    }

    /// Whether one more may be replaced now; and as a canary.
    pub fn next(&self) -> Option<bool> {
        (self.most != Some(0)).then_some(self.state.awaits_promotion())
    }

    /// When the next nodes may follow, if they wait for `stagger` and not for the health of the last ones.
    pub fn next_batch_at(&self) -> Option<Wall> {
        let tried = self.state.awaits_promotion()
            && self.found.living_canaries + self.replaced >= self.state.desired_canaries;
        let paced = self.most == Some(0) && self.found.recent > self.found.undecided;
        self.found.stagger_until.filter(|_| paced && !tried && self.left_to_replace() > 0)
    }

    pub fn count_replaced(&mut self) {
        self.most = self.most.map(|most| most - 1);
        self.replaced += 1;
    }

    pub fn count_without_room(&mut self) {
        self.without_room += 1;
    }

    pub fn count_placed(&mut self, n: u64) {
        self.placed += n;
    }

    /// `left`: the allocation that was there last. What failed with a deployment that has failed or is paused is not tried again.
    pub fn fill(&self, left: Option<&Allocation>, rollout: &Rollout) -> Fill {
        let failed = |a: &Allocation| a.client == ClientStatus::Failed && !a.server_terminal();
        match left {
            Some(old) if failed(old) && rollout.is_of_paused_or_failed(old) => Fill::Nothing,
            Some(old) if !self.open && rollout.is_unpromoted_canary(old) => {
                Fill::NewestVersion { canary: true }
            }
            Some(_) if !self.open => Fill::PreviousVersion,
            None if !self.open => Fill::Nothing,
            _ => Fill::NewestVersion { canary: false },
        }
    }

    /// The group's state in the deployment, with no more canaries than nodes can run.
    pub fn deployment_state(&self) -> DeploymentGroup {
        let mut state = self.state.clone();
        let possible = self.found.living_canaries + self.replaced + self.left_to_replace();
        if state.awaits_promotion() && possible > 0 {
            state.desired_canaries = state.desired_canaries.min(possible);
        }
        state
    }

    /// Whether nothing is left to be done, but for nodes that have no room or take nothing new.
    pub fn is_done(&self) -> bool {
        let idle = self.replaced + self.placed + self.found.in_place == 0;
        let proven = self.state.healthy > 0 || self.found.eligible_nodes == 0;
        idle && proven
            && self.left_to_replace() == 0
            && self.found.undecided == 0
            && !self.found.has_unhealthy
            && !self.state.awaits_promotion()
    }

    /// Outdated allocations whose places the newest version can take, as far as is known.
    fn left_to_replace(&self) -> u64 {
        self.found.outdated.saturating_sub(self.replaced + self.without_room)
    }
}
