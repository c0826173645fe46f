//! What changed from one block to another of its kind, and what that means for what runs, by the table.
//!
//! Refuses to know: any single block.

use super::{ChangeEffect, FieldView, Fields, Member};

/// Every member with what it is in either block.
pub fn pairs<'a>(
    old: &'a dyn Fields,
    new: &'a dyn Fields,
) -> Vec<(&'static Member, FieldView<'a>, FieldView<'a>)> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    old.each(&mut |member, view| before.push((member, view)));
    new.each(&mut |_, view| after.push(view));
    assert_eq!(before.len(), after.len(), "blocks of one kind have the same members");
    before.into_iter().zip(after).map(|((member, was), is)| (member, was, is)).collect()
}

/// What all that changed means together, but for the members that `skip` names by their JSON.
pub fn of_block(old: &dyn Fields, new: &dyn Fields, skip: &[&str]) -> ChangeEffect {
    let counted = pairs(old, new).into_iter().filter(|(member, ..)| !skip.contains(&member.json));
    counted.map(|(member, was, is)| of_member(member, was, is)).max().unwrap_or(ChangeEffect::Nothing)
}

fn of_member(member: &Member, old: FieldView<'_>, new: FieldView<'_>) -> ChangeEffect {
    match (member.change, old, new) {
        (change, _, _) if change == ChangeEffect::Nothing || same(member, old, new) => ChangeEffect::Nothing,
        (ChangeEffect::InPlace, FieldView::Block(old), FieldView::Block(new)) => of_block(old, new, &[]),
        (change, _, _) => change,
    }
}

/// Whether the member means the same in both.
pub fn same(member: &Member, old: FieldView<'_>, new: FieldView<'_>) -> bool {
    let meant = |text| if str::is_empty(text) { member.empty_means } else { text };
    match (old, new) {
        (FieldView::Null, FieldView::Null) | (FieldView::NotKept, FieldView::NotKept) => true,
        (FieldView::Text(old), FieldView::Text(new)) => meant(old) == meant(new),
        (FieldView::Int(old), FieldView::Int(new)) => old == new,
        (FieldView::Bool(old), FieldView::Bool(new)) => old == new,
        (FieldView::Span(old), FieldView::Span(new)) => old == new,
        (FieldView::Texts(old), FieldView::Texts(new)) => old == new,
        (FieldView::TextMap(old), FieldView::TextMap(new)) => old == new,
        (FieldView::Free(old), FieldView::Free(new)) => old == new,
        (FieldView::Block(old), FieldView::Block(new)) => same_block(old, new),
        (FieldView::Blocks(old), FieldView::Blocks(new)) => {
            let at =
                |i: usize, j: usize| old.at(i).zip(new.at(j)).is_some_and(|(old, new)| same_block(old, new));
            let all = 0..old.count();
            let found = |i| if member.unordered { all.clone().any(|j| at(i, j)) } else { at(i, i) };
            old.count() == new.count() && all.clone().all(found)
        }
        (FieldView::ByLabel(old), FieldView::ByLabel(new)) => {
            let at = |label: &&str| {
                old.get(label).zip(new.get(label)).is_some_and(|(old, new)| same_block(old, new))
            };
            old.labels() == new.labels() && old.labels().iter().all(at)
        }
        _ => false,
    }
}

fn same_block(old: &dyn Fields, new: &dyn Fields) -> bool {
    pairs(old, new).into_iter().all(|(member, was, is)| same(member, was, is))
}
