//! The servers of a region: the first ones, and how the list of them changes with the entries that change raft's members.
//!
//! Refuses to know who may come or go: an entry that has changed raft's members is followed, whatever it says of them.
//! Invariant: rows and raft's members agree after each entry.

use super::super::fault::Fault;
use super::super::members;
use super::super::tables::{self, Kind};
use super::{ApplyTxn, Reply};
use model::member::{Founding, RegionLevel, ServerInfo, ServerMember, Suffrage};
use model::scheduling::SchedulerSettings;
use wire::change::Change;
use wire::command::MemberChange;
use wire::feature_level::FIRST_FEATURE_LEVEL;
use wire::request::{Refusal, RefusalKind, WriteReply};

impl ApplyTxn<'_> {
    /// A region begins once.
    pub(super) fn init(&mut self, founding: &Founding) -> Result<Reply, Fault> {
        let key = Kind::Region.key(&[]);
        if tables::any(&self.rows, &key)? {
            return Ok(self.noop());
        }
        self.put(&key, founding)?;
        for (id, info) in &founding.servers {
            let put = self.put_member(*id, info.clone(), Suffrage::Voter)?;
            assert!(put.is_ok(), "a region that begins refuses no server");
        }
        let common = founding.servers.iter().map(|(_, info)| info.feature_level).min();
        self.put_feature_level(common.unwrap_or(FIRST_FEATURE_LEVEL))?;
        if founding.scheduler != SchedulerSettings::default() {
            let configured = self.configure_scheduler(founding.scheduler, Some(0))?;
            assert!(configured.is_ok(), "settings that came in between are kept, which is no refusal");
        }
        Ok(self.noop())
    }

    pub(super) fn change_member(
        &mut self,
        change: MemberChange,
        changes_members: bool,
    ) -> Result<Reply, Fault> {
        let is_update = matches!(change, MemberChange::Update { .. });
        if changes_members == is_update {
            let why = "the region's servers are no longer what this change was made for: ask again";
            return Ok(Err(Refusal::new(RefusalKind::Conflict, why)));
        }
        match change {
            MemberChange::Add { id, info } => self.put_member(id, info, Suffrage::Learner),
            MemberChange::Promote { id } => self.set_suffrage(id, Suffrage::Voter),
            MemberChange::Remove { id } => self.set_suffrage(id, Suffrage::Removed),
            MemberChange::Update { id, info } => match self.member(id)? {
                Some(ServerMember { suffrage, .. }) if suffrage != Suffrage::Removed => {
                    let level = members::region_level(&self.rows)?.level;
                    if info.feature_level < level {
                        let (known, why) =
                            (info.feature_level, "the region's feature level does not go down");
                        let why =
                            format!("server {id} knows feature level {known}, the region has {level}: {why}");
                        return Ok(Err(Refusal::new(RefusalKind::Conflict, why)));
                    }
                    self.put_member(id, info, suffrage)
                }
                _ => {
                    let why = format!("server {id} is no member of the region");
                    Ok(Err(Refusal::new(RefusalKind::NotFound, why)))
                }
            },
        }
    }

    /// Refused unless all servers know that level: one of a lower level may have come since it was proposed.
    pub(super) fn raise_feature_level(&mut self, level: u32) -> Result<Reply, Fault> {
        let known = members::members(&self.rows)?
            .into_iter()
            .filter(|member| member.suffrage != Suffrage::Removed)
            .find(|member| member.info.feature_level < level);
        let present = members::region_level(&self.rows)?.level;
        if let Some(ServerMember { id, info, .. }) = known {
            let why = format!("server {id} ({}) knows feature level {} only", info.name, info.feature_level);
            return Ok(Err(Refusal::new(RefusalKind::Conflict, why)));
        }
        if level <= present {
            let why = format!("the region's feature level is {present} already, and does not go down");
            return Ok(Err(Refusal::new(RefusalKind::Conflict, why)));
        }
        self.put_feature_level(level)?;
        Ok(Ok(WriteReply::Written { index: self.index() }))
    }

    fn put_feature_level(&mut self, level: u32) -> Result<(), Fault> {
        if level > FIRST_FEATURE_LEVEL {
            let row = RegionLevel { level, modify_index: self.index() };
            self.put(&Kind::FeatureLevel.key(&[]), &row)?;
            self.changes.push(Change::FeatureLevel { level });
        }
        Ok(())
    }

    fn set_suffrage(&mut self, id: u64, suffrage: Suffrage) -> Result<Reply, Fault> {
        let info = self.member(id)?.map(|member| member.info).unwrap_or_default();
        self.put_member(id, info, suffrage)
    }

    fn member(&self, id: u64) -> Result<Option<ServerMember>, Fault> {
        tables::get(&self.rows, &tables::member_key(id))
    }

    fn put_member(&mut self, id: u64, info: ServerInfo, suffrage: Suffrage) -> Result<Reply, Fault> {
        let index = self.index();
        let create_index = self.member(id)?.map_or(index, |member| member.create_index);
        let row = ServerMember { id, info, suffrage, create_index, modify_index: index };
        self.put(&tables::member_key(id), &row)?;
        self.changes.push(Change::Member { id });
        Ok(Ok(WriteReply::Written { index }))
    }
}
