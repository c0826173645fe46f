//! The servers of a region: how it begins, and that the list follows raft's members.

use super::*;
use crate::apply::Committed;
use crate::check::{consistent, members_are};
use crate::fault::Fault;
use crate::log_batch::LogBatch;
use crate::store::{Options, Store};
use model::member::{Founding, ServerInfo, Suffrage};
use wire::command::MemberChange;
use wire::feature_level::FEATURE_LEVEL;
use wire::record;

fn founded(ids: &[u64]) -> Region {
    let mut r = Region::default();
    r.store.found(&founding(ids), &[1]).unwrap();
    r
}

fn add(id: u64) -> MemberChange {
    MemberChange::Add { id, info: server_info("new") }
}

/// Voters, learners and those removed agree with this.
fn must_list(r: &Region, voters: &[u64], learners: &[u64]) {
    members_are(&r.view(), voters, learners).unwrap();
    consistent(&r.view()).unwrap();
}

#[test]
fn a_region_begins_once_with_its_first_servers() {
    let mut r = founded(&[3, 5, 9]);
    assert_eq!(r.view().index(), 1);
    assert_eq!(r.view().founding().unwrap(), Some(founding(&[3, 5, 9])));
    must_list(&r, &[3, 5, 9], &[]);
    assert!(r.store.found(&founding(&[3]), &[1]).is_err(), "once");
    r.run(&Command::Init(Box::new(founding(&[4]))));
    must_list(&r, &[3, 5, 9], &[]);
}

#[test]
fn the_list_of_servers_follows_rafts_members() {
    let mut r = founded(&[3]);
    let added = r.change_member(add(7));
    assert_eq!(added.changes, [Change::Member { id: 7 }]);
    must_list(&r, &[3], &[7]);
    r.change_member(MemberChange::Promote { id: 7 });
    must_list(&r, &[3, 7], &[]);
    r.change_member(MemberChange::Remove { id: 3 });
    must_list(&r, &[7], &[]);
    let rows = r.view().members().unwrap();
    let told: Vec<_> = rows.iter().map(|m| (m.id, m.suffrage, m.create_index, m.modify_index)).collect();
    assert_eq!(told, [(3, Suffrage::Removed, 1, 4), (7, Suffrage::Voter, 2, 3)]);
    assert!(members_are(&r.view(), &[3, 7], &[]).is_err(), "the check sees it");
}

#[test]
fn a_membership_change_without_raft_is_refused() {
    let mut r = founded(&[3]);
    for change in [add(7), MemberChange::Promote { id: 7 }, MemberChange::Remove { id: 3 }] {
        let done = r.run(&Command::ChangeMember(Box::new(change)));
        assert_eq!(done.reply.unwrap_err().kind, RefusalKind::Conflict);
    }
    must_list(&r, &[3], &[]);
}

#[test]
fn a_members_description_changes_nothing_else() {
    let mut r = founded(&[3, 5]);
    let update =
        |id| Command::ChangeMember(Box::new(MemberChange::Update { id, info: server_info("moved") }));
    r.run(&update(3)).reply.unwrap();
    let row = r.view().members().unwrap().remove(0);
    assert_eq!((row.info.name.as_str(), row.suffrage, row.modify_index), ("moved", Suffrage::Voter, 2));
    r.change_member(MemberChange::Remove { id: 5 });
    for gone in [5, 8] {
        assert_eq!(r.run(&update(gone)).reply.unwrap_err().kind, RefusalKind::NotFound);
    }
    must_list(&r, &[3], &[]);
}

fn knows(level: u32) -> ServerInfo {
    ServerInfo { feature_level: level, ..server_info("newer") }
}

fn raise(r: &mut Region, level: u32) -> Result<WriteReply, RefusalKind> {
    let raised = r.run(&Command::RaiseFeatureLevel { level }).reply.map_err(|refusal| refusal.kind);
    consistent(&r.view()).unwrap();
    raised
}

fn update(r: &mut Region, id: u64, level: u32) -> Result<WriteReply, RefusalKind> {
    let change = MemberChange::Update { id, info: knows(level) };
    r.run(&Command::ChangeMember(Box::new(change))).reply.map_err(|refusal| refusal.kind)
}

fn newest_build() -> Region {
    let (mut store, _) =
        Store::open(in_memory(), Options { feature_level: 9, ..Options::default() }).unwrap();
    store.found(&founding(&[3, 5]), &[1]).unwrap();
    Region { store }
}

#[test]
fn the_level_rises_to_what_all_servers_know_and_no_further() {
    let mut r = newest_build();
    assert_eq!(r.view().feature_level().unwrap(), 1);
    assert_eq!(raise(&mut r, 2), Err(RefusalKind::Conflict), "nobody knows it");
    update(&mut r, 3, 3).unwrap();
    assert_eq!(raise(&mut r, 2), Err(RefusalKind::Conflict), "one does not know it");
    update(&mut r, 5, 2).unwrap();
    assert_eq!(raise(&mut r, 3), Err(RefusalKind::Conflict), "one knows less than that");
    let raised = r.run(&Command::RaiseFeatureLevel { level: 2 });
    assert_eq!(raised.changes, [Change::FeatureLevel { level: 2 }]);
    assert_eq!(r.view().feature_level().unwrap(), 2);
    assert_eq!(raise(&mut r, 2), Err(RefusalKind::Conflict), "it has it already");
    assert_eq!(raise(&mut r, 1), Err(RefusalKind::Conflict), "it does not go down");
}

#[test]
fn a_server_is_not_listed_with_less_than_the_region_has() {
    let mut r = newest_build();
    for id in [3, 5] {
        update(&mut r, id, 2).unwrap();
    }
    raise(&mut r, 2).unwrap();
    assert_eq!(update(&mut r, 3, 1), Err(RefusalKind::Conflict));
    update(&mut r, 3, 4).unwrap();
    r.change_member(MemberChange::Add { id: 9, info: knows(1) });
    assert!(consistent(&r.view()).is_err_and(|e| e.contains("feature level is 2")), "the check sees it");
    r.change_member(MemberChange::Remove { id: 9 });
    consistent(&r.view()).unwrap();
}

#[test]
fn a_region_begins_with_the_level_of_its_oldest_build() {
    let (mut store, _) =
        Store::open(in_memory(), Options { feature_level: 3, ..Options::default() }).unwrap();
    let servers = vec![(3, knows(3)), (5, knows(2))];
    store.found(&Founding { servers, ..founding(&[]) }, &[1]).unwrap();
    let r = Region { store };
    assert_eq!(r.view().feature_level().unwrap(), 2);
    consistent(&r.view()).unwrap();
}

#[test]
fn an_entry_of_a_higher_level_is_a_fault_and_changes_nothing() {
    let mut r = founded(&[3]);
    let bytes = record::encode(&Command::RaiseFeatureLevel { level: FEATURE_LEVEL + 1 });
    let batch = LogBatch { entries: vec![(2, bytes.clone())], ..LogBatch::default() };
    r.store.append(&batch).unwrap();
    let before = r.store.digest();
    let refused = r.store.apply(&[Committed { index: 2, command: Some(&bytes), conf_state: None }]);
    assert!(matches!(refused, Err(Fault::Newer(_))), "{refused:?}");
    assert_eq!((r.store.applied(), r.store.digest()), (1, before));
}
