//! A list's stubs written straight to bytes: most of a stub is names of members, which are copied here as whole pieces, where
//! a serializer goes through them letter by letter.
//!
//! Refuses to know: pages. Invariant: it writes what serde writes of `JobStub` (a test compares them).

use model::job::Job;
use model::job_summary::GroupSummary;
use state::job_headers::JobHeader;
use std::io::Write;

/// `whole`: to show `meta`, which otherwise is `null`.
pub fn job(out: &mut Vec<u8>, head: &JobHeader, whole: Option<&Job>) {
    member(out, "{\"ID\":", &head.key.id);
    member(out, ",\"ParentID\":", head.relation.parent());
    member(out, ",\"Name\":", &head.name);
    member(out, ",\"Namespace\":", &head.key.namespace);
    piece(out, ",\"Datacenters\":");
    match head.datacenters.as_slice() {
        [] => piece(out, "null"),
        [first, rest @ ..] => {
            member(out, "[", first);
            rest.iter().for_each(|name| member(out, ",", name));
            piece(out, "]");
        }
    }
    member(out, ",\"NodePool\":", &head.node_pool);
    member(out, ",\"Multiregion\":null,\"Type\":", head.job_type.as_str());
    number(out, ",\"Priority\":", head.priority);
    flag(out, ",\"Periodic\":", head.relation.is_periodic());
    flag(out, ",\"ParameterizedJob\":", head.relation.is_parameterized());
    flag(out, ",\"Stop\":", head.stop);
    member(out, ",\"Status\":", head.version.status.as_str());
    piece(out, ",\"StatusDescription\":\"\",\"JobSummary\":");
    summary(out, head);
    number(out, ",\"CreateIndex\":", head.create_index);
    number(out, ",\"ModifyIndex\":", head.version.modify_index);
    number(out, ",\"JobModifyIndex\":", head.version.job_modify_index);
    number(out, ",\"SubmitTime\":", head.version.submit_time.0);
    piece(out, ",\"Meta\":");
    match whole.map(|job| &job.spec.meta).filter(|meta| !meta.is_empty()) {
        None => piece(out, "null"),
        Some(meta) => {
            let mut before = "{";
            for (key, value) in meta {
                member(out, before, key);
                member(out, ":", value);
                before = ",";
            }
            piece(out, "}");
        }
    }
    piece(out, "}");
}

fn summary(out: &mut Vec<u8>, head: &JobHeader) {
    member(out, "{\"JobID\":", &head.key.id);
    member(out, ",\"Namespace\":", &head.key.namespace);
    piece(out, ",\"Summary\":{");
    let mut before = "";
    for (name, group) in &head.summary.groups {
        member(out, before, name);
        self::group(out, group);
        before = ",";
    }
    number(out, "},\"Children\":{\"Pending\":", head.summary.children.pending);
    number(out, ",\"Running\":", head.summary.children.running);
    number(out, ",\"Dead\":", head.summary.children.dead);
    piece(out, "}");
    number(out, ",\"CreateIndex\":", head.summary.create_index);
    number(out, ",\"ModifyIndex\":", head.summary.modify_index);
    piece(out, "}");
}

fn group(out: &mut Vec<u8>, group: &GroupSummary) {
    number(out, ":{\"Queued\":", group.queued);
    number(out, ",\"Complete\":", group.complete);
    number(out, ",\"Failed\":", group.failed);
    number(out, ",\"Running\":", group.running);
    number(out, ",\"Starting\":", group.starting);
    number(out, ",\"Lost\":", group.lost);
    number(out, ",\"Unknown\":", group.unknown);
    piece(out, "}");
}

fn piece(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn flag(out: &mut Vec<u8>, before: &str, value: bool) {
    piece(out, before);
    piece(out, if value { "true" } else { "false" });
}

fn number(out: &mut Vec<u8>, before: &str, value: impl std::fmt::Display) {
    piece(out, before);
    write!(out, "{value}").expect("a vector takes all");
}

/// A text in quotes. Nearly none has anything to escape; what has is left to serde.
fn member(out: &mut Vec<u8>, before: &str, text: &str) {
    piece(out, before);
    if text.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\') {
        piece(out, "\"");
        piece(out, text);
        piece(out, "\"");
    } else {
        serde_json::to_writer(out, text).expect("a vector takes all");
    }
}

#[cfg(test)]
mod tests {
    use super::super::job_answers::JobStub;
    use super::*;
    use state::samples::*;

    #[test]
    fn stubs_are_what_serde_would_write() {
        let mut region = Region::default();
        for (n, id) in ["plain", "quo\"ted", "back\\slash", "line\n\u{1}", "\u{e4}\u{1f41a}\u{2028}"]
            .into_iter()
            .enumerate()
        {
            let mut spec = spec(id, 3);
            (spec.name, spec.priority, spec.stop) = (format!("{id} name"), n as i64 - 1, n == 1);
            spec.datacenters = (0..n).map(|n| format!("dc{n}")).collect();
            spec.groups = (0..n).map(|n| state::samples::group(&format!("{id}-{n}"), 1)).collect();
            spec.meta = (0..n).map(|n| (format!("key{n}{id}"), format!("value{id}"))).collect();
            region.run(&register(spec, None));
        }
        let view = region.view();
        let heads = view.job_headers(None, "", None, 100).expect("reads");
        assert_eq!(heads.len(), 5);
        for head in &heads {
            let whole = view.job(&head.key).expect("reads");
            for whole in [None, whole.as_deref()] {
                let mut out = Vec::new();
                job(&mut out, head, whole);
                let serde = serde_json::to_string(&JobStub::new(head, whole)).expect("JSON");
                assert_eq!(String::from_utf8_lossy(&out), serde);
            }
        }
    }
}
