//! The servers of a region: the first ones, and how the list of them changes with the entries that change raft's members.
//!
//! Refuses to know who may come or go: an entry that has changed raft's members is followed, whatever it says of them.
//! Invariant: rows and raft's members agree after each entry.

use super::super::fault::Fault;
use super::super::tables::{self, Kind};
use super::{ApplyTxn, Reply};
use model::member::{Founding, ServerInfo, ServerMember, Suffrage};
use model::scheduling::SchedulerSettings;
use wire::change::Change;
use wire::command::MemberChange;
use wire::request::{Refusal, RefusalKind, WriteReply};

impl ApplyTxn<'_> {
    /// A region begins once.
    pub(super) fn init(&mut self, founding: &Founding) -> Result<Reply, Fault> {
        let key = Kind::Region.key(&[]);
        if tables::any(&self.rows, &key)? {
            return Ok(self.nothing());
        }
        self.put(&key, founding)?;
        for (id, info) in &founding.servers {
            // nothing refuses it
            let _ = self.put_member(*id, info.clone(), Suffrage::Voter)?;
        }
        if founding.scheduler != SchedulerSettings::default() {
            let _ = self.configure_scheduler(founding.scheduler, Some(0))?;
        }
        Ok(self.nothing())
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
                    self.put_member(id, info, suffrage)
                }
                _ => {
                    let why = format!("server {id} is no member of the region");
                    Ok(Err(Refusal::new(RefusalKind::NotFound, why)))
                }
            },
        }
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
