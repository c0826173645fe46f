//! The leader raises the region's feature level once every server's build knows more; a command of a higher level is not proposed,
//! and a server of a lower one not let in (decision 0088).
//!
//! Refuses to know: what a level is about. Invariant: a server is listed with at least the level that the region has.

use super::context::GroupContext;
use super::effects::Effect;
use super::members::MemberList;
use super::outbox::Outbox;
use super::pending::OnApply;
use state::fault::Fault;
use wire::command::Command;
use wire::feature_level::MAX_FEATURE_LEVEL;
use wire::frame::Body;
use wire::request::{Refusal, RefusalKind};
use wire::server_rpc::ServerReply;

/// The leader's part.
#[derive(Default)]
pub struct LevelRise {
    /// The entry that raises the level, if this leader has proposed one.
    proposed: Option<u64>,
}

impl LevelRise {
    /// Raises the level once all servers know a higher one. True: that is under way, and servers have to wait before they are listed.
    pub fn propose(&mut self, cx: &mut GroupContext<'_>) -> bool {
        if self.proposed.is_some_and(|index| index > cx.replica.applied()) {
            return true;
        }
        let members = cx.replica.members();
        let level = members.common_level().min(MAX_FEATURE_LEVEL);
        if level <= members.feature_level {
            return false;
        }
        let command = Command::RaiseFeatureLevel { level };
        let Ok((index, term)) = cx.replica.propose(&command) else { return true };
        tracing::info!(target: "nomad", level, "all servers know more: the region's feature level rises");
        self.proposed = Some(index);
        cx.pending.insert((index, term), OnApply::Nothing);
        true
    }
}

impl MemberList {
    /// Why a command waits until all servers know it.
    pub fn beyond_level(&self, command: &Command) -> Option<Refusal> {
        let (needed, present) = (command.feature_level(), self.feature_level);
        (needed > present).then(|| {
            let why = format!(
                "not all servers know this yet: it needs feature level {needed}, and the region has {present}; install a newer \
                 build on the servers that \"drover server members -json\" shows with a lower one"
            );
            Refusal::new(RefusalKind::Unavailable, why)
        })
    }

    /// Whether a server whose build knows this level knows less than the region.
    pub fn is_too_old(&self, level: u32) -> bool {
        level < self.feature_level
    }
}

/// Tells a server that the region's level is higher than what its build knows.
pub fn reject_too_old(id: u64, level: u32, outbox: &mut Outbox) {
    tracing::warn!(target: "nomad", id, level, "a server's build knows less than the region's feature level");
    outbox.effect(Effect::server_frame(id, 0, Body::ServerReply(ServerReply::TooOld { level })));
}

/// The region's leader says that this build, which knows the level `known`, knows too little.
pub fn rejected_too_old(level: u32, known: u32) -> Result<(), Fault> {
    if level > known { Err(Fault::needs_level(level, known)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Alone;
    use super::*;
    use model::member::ServerInfo;
    use state::samples::server_info;

    fn knows(level: u32) -> ServerInfo {
        ServerInfo { feature_level: level, ..server_info("alone") }
    }

    #[test]
    fn a_command_beyond_the_feature_level_is_not_proposed() {
        let mut alone = Alone::with(|_| {});
        let end = alone.server.replica.raft().position().last_index;
        alone.propose(&Command::RaiseFeatureLevel { level: 2 });
        alone.turn(vec![]);
        assert_eq!(alone.server.replica.raft().position().last_index, end, "it is in no log");
        let refusal = alone
            .server
            .replica
            .members()
            .beyond_level(&Command::RaiseFeatureLevel { level: 2 })
            .expect("is refused");
        assert!(
            refusal.message.contains("needs feature level 2, and the region has 1"),
            "{}",
            refusal.message
        );
    }

    #[test]
    fn a_server_that_is_too_old_for_its_region_stops() {
        let stopped = rejected_too_old(2, 1).expect_err("its build knows 1");
        let why = stopped.to_string();
        assert!(matches!(stopped, Fault::Newer(_)) && why.contains("install one of them"), "{why}");
        assert_eq!(rejected_too_old(1, 1), Ok(()), "somebody is mistaken");
    }

    /// While it rises nobody is listed: one that knows less could come in between.
    #[test]
    fn nobody_is_listed_while_the_level_rises() {
        let mut alone = Alone::with(|_| {});
        let id = alone.server.id();
        alone.server.config.info = knows(2);
        let announce = |alone: &mut Alone, id, info| {
            let now = alone.now;
            alone.leader().membership.announce(id, info, now);
        };
        announce(&mut alone, id, knows(2));
        (0..20).for_each(|_| {
            alone.turn(vec![]);
            if alone.server.replica.members().common_level() == 2
                && alone.server.replica.members().feature_level == 1
            {
                announce(&mut alone, 8, knows(1));
            }
        });
        assert!(alone.server.replica.members().get(8).is_none(), "it knows less than the region has now");
    }
}
