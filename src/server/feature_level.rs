//! The leader raises the region's feature level once every server's build knows more; a command of a higher level is not proposed,
//! and a server of a lower one not let in (decision 0088).
//!
//! Refuses to know: what a level is about. Invariant: a server is listed with at least the level that the region has.

use super::Server;
use super::pending::OnApply;
use model::time::Mono;
use state::fault::Fault;
use wire::command::Command;
use wire::feature_level::MAX_FEATURE_LEVEL;
use wire::frame::{self, Body, Frame};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;
use wire::server_rpc::ServerReply;

impl Server {
    /// Raises the level once all servers know a higher one. True: that is under way, and servers have to wait before they are listed.
    pub(super) fn raise_feature_level(&mut self) -> bool {
        let (known, applied) = (self.members.common_level(), self.replica.applied());
        let Some(leader) = &mut self.leader else { return false };
        if leader.membership.raised_at.is_some_and(|index| index > applied) {
            return true;
        }
        let level = known.min(MAX_FEATURE_LEVEL);
        if level <= self.members.feature_level {
            return false;
        }
        let command = Command::RaiseFeatureLevel { level };
        let Ok((index, term)) = self.replica.propose(&command) else { return true };
        tracing::info!(target: "nomad", level, "all servers know more: the region's feature level rises");
        leader.membership.raised_at = Some(index);
        self.pending.insert((index, term), OnApply::Nothing);
        true
    }

    /// Why a command waits until all servers know it.
    pub(super) fn beyond_level(&self, command: &Command) -> Option<Refusal> {
        let (needed, present) = (command.feature_level(), self.members.feature_level);
        (needed > present).then(|| {
            let why = format!(
                "not all servers know this yet: it needs feature level {needed}, and the region has {present}; install a newer \
                 build on the servers that \"drover server members -json\" shows with a lower one"
            );
            Refusal::new(RefusalKind::Unavailable, why)
        })
    }

    pub(super) fn is_too_old(&self, level: u32) -> bool {
        level < self.members.feature_level
    }

    pub(super) fn reject_too_old(&mut self, id: u64, now: Mono) {
        let level = self.members.feature_level;
        tracing::warn!(target: "nomad", id, level, "a server's build knows less than the region's feature level");
        let body = Body::ServerReply(ServerReply::TooOld { level });
        let (_, mut cx) = self.split(now);
        cx.send(Peer::Server(id), frame::encode(&Frame { request: 0, body }));
    }

    /// The region's leader says that this build knows too little.
    pub(super) fn rejected_too_old(&self, level: u32) -> Result<(), Fault> {
        let known = self.config.info.feature_level;
        if level > known { Err(Fault::needs_level(level, known)) } else { Ok(()) }
    }
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
        let refusal =
            alone.server.beyond_level(&Command::RaiseFeatureLevel { level: 2 }).expect("is refused");
        assert!(
            refusal.message.contains("needs feature level 2, and the region has 1"),
            "{}",
            refusal.message
        );
    }

    #[test]
    fn a_server_that_is_told_that_it_is_too_old_stops() {
        let alone = Alone::with(|_| {});
        let stopped = alone.server.rejected_too_old(2).expect_err("its build knows 1");
        let why = stopped.to_string();
        assert!(matches!(stopped, Fault::Newer(_)) && why.contains("install one of them"), "{why}");
        assert_eq!(alone.server.rejected_too_old(1), Ok(()), "somebody is mistaken");
    }

    /// While it rises nobody is listed: one that knows less could come in between.
    #[test]
    fn nobody_is_listed_while_the_level_rises() {
        let mut alone = Alone::with(|_| {});
        let (now, id) = (alone.now, alone.server.id());
        alone.server.config.info = knows(2);
        alone.server.announced(id, id, knows(2), now);
        (0..20).for_each(|_| {
            alone.turn(vec![]);
            if alone.server.members.common_level() == 2 && alone.server.members.feature_level == 1 {
                alone.server.announced(8, 8, knows(1), now);
            }
        });
        assert!(alone.server.members.get(8).is_none(), "it knows less than the region has now");
    }
}
