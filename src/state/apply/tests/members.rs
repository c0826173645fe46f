//! The servers of a region: how it begins, and that the list follows raft's members.

use super::*;
use crate::check::{consistent, members_are};
use model::member::Suffrage;
use wire::command::MemberChange;

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
fn servers_come_vote_and_go_with_rafts_members() {
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
fn a_change_that_raft_did_not_make_lists_nobody() {
    let mut r = founded(&[3]);
    for change in [add(7), MemberChange::Promote { id: 7 }, MemberChange::Remove { id: 3 }] {
        let done = r.run(&Command::ChangeMember(Box::new(change)));
        assert_eq!(done.reply.unwrap_err().kind, RefusalKind::Conflict);
    }
    must_list(&r, &[3], &[]);
}

#[test]
fn what_a_member_says_of_itself_changes_nothing_else() {
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
