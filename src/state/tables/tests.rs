//! Keys that sort and come apart, hashes that differ, and the golden bytes of the records that only this room reads.

use super::*;
use model::job_summary::{Children, GroupSummary};

#[test]
fn job_keys_sort_like_jobs_and_are_split_again() {
    let mut keys: Vec<JobKey> = ["", "a", "a\0", "a\0b", "a-b", "ab", "b", "\u{10ffff}"]
        .iter()
        .flat_map(|id| ["default", "a", "a\0", ""].map(|n| JobKey::new(n, *id)))
        .collect();
    keys.sort();
    let bytes: Vec<Vec<u8>> = keys.iter().map(job_bytes).collect();
    assert!(bytes.is_sorted());
    for (key, bytes) in keys.iter().zip(&bytes) {
        let more = [bytes.as_slice(), &[3, 0, 0xff]].concat();
        assert_eq!(split_job(&more), Some((key.clone(), &[3, 0, 0xff][..])));
        let cut = bytes.split_last().and_then(|(_, cut)| split_job(cut));
        assert_ne!(cut.map(|(key, _)| key).as_ref(), Some(key));
        assert!(bytes.starts_with(&job_prefix_bytes(&key.namespace, &key.id)));
    }
}

#[test]
fn a_prefix_scan_ends_after_the_prefix() {
    let cases: [(&[u8], Option<&[u8]>); 4] =
        [(&[1, 2], Some(&[1, 3])), (&[1, 0xff], Some(&[2])), (&[0xff, 0xff], None), (&[], None)];
    for (prefix, end) in cases {
        assert_eq!(after_prefix(prefix).as_deref(), end, "{prefix:?}");
    }
}

#[test]
fn creation_keys_and_numbers_round_trip_or_are_refused() {
    let place = CreationKey { create_index: 0x0102, id: Uuid::from_random(7) };
    assert_eq!(CreationKey::from_key_end(&alloc_key(place)), Ok(place));
    assert!(CreationKey::from_key_end(&[0; 23]).is_err() && id_at_end(&[0; 15]).is_err());
    assert_eq!(decode_pair(&encode_pair(1, u64::MAX)), Ok((1, u64::MAX)));
    assert!(decode_pair(&[0; 7]).is_err() && decode_pair(&[0; 17]).is_err() && number(&[0; 9]).is_err());
}

fn hex<R: Record>(record: &R) -> String {
    record::encode(record).iter().map(|b| format!("{b:02x}")).collect()
}

fn opens_as<R: Record + PartialEq + std::fmt::Debug>(record: R, golden: &str) {
    assert_eq!(hex(&record), golden, "a changed record is a new version, with an upgrade");
    assert_eq!(record::decode::<R>(&unhex(golden)), Ok(record));
}

fn unhex(golden: &str) -> Vec<u8> {
    (0..golden.len() / 2).map(|i| u8::from_str_radix(&golden[2 * i..2 * i + 2], 16).unwrap()).collect()
}

#[test]
fn rows_are_written_and_read_in_the_stored_format() {
    opens_as(
        AppliedState { index: 1, digest: u64::MAX, tables: [1, 2, 3, 4, 5, 6, 7, 8] },
        "0101ffffffffffffffffff010102030405060708",
    );
    assert!(record::decode::<AppliedState>(&unhex("0001ffffffffffffffffff010102030405060708")).is_err());
    let version = VersionRow {
        version: 2,
        stable: true,
        tracked: true,
        status: JobStatus::Running,
        submit_time: Wall(-3),
        job_modify_index: 300,
        modify_index: 301,
        allocs: 4,
        tag: None,
    };
    let groups = [("g".to_string(), GroupSummary { queued: 1, running: 2, ..GroupSummary::default() })];
    let summary =
        JobSummary { groups: groups.into(), create_index: 5, modify_index: 6, children: Children::default() };
    let job = JobRow {
        create_index: 5,
        job_type: JobType::Batch,
        stop: false,
        versions: vec![version],
        live_allocs: 2,
        summary,
        relation: JobRelation::Alone,
    };
    opens_as(job, "01050100010201010105ac02ad0204000201016701000200000000050600000000");
    let event = NodeEvent {
        subsystem: "Cluster".into(),
        message: "m".into(),
        details: [("k".to_string(), "v".to_string())].into(),
        at: Wall(1),
        create_index: 9,
    };
    let node = NodeRow {
        status: NodeStatus::Down,
        status_description: "d".into(),
        status_updated: Wall(2),
        eligible: true,
        events: vec![event],
        last_missed_heartbeat_index: 1,
        last_alloc_update_index: 2,
        create_index: 3,
        modify_index: 4,
        drain: None,
        last_drain: None,
    };
    opens_as(node, "0102016404010107436c7573746572016d01016b01760209010203040000");
    opens_as(StoredMembers { conf_state: vec![1, 1, 0, 0, 0, 0] }, "0106010100000000");
    opens_as(
        NodeInfoRow { info: crate::samples::info(1), computed_class: "v1:x".into() },
        "010000000000004001800000000000000100000000000040008000000000000001066e6f64652d31036463310764656661756c74000003086370752e617263680561726d36340f6472697665722e7261775f6578656301310b6b65726e656c2e6e616d65056c696e757800c03e8010a09c01000000040001087261775f657865630101074865616c746879008080d0e2c6bfce972f000000a09c0180fa01000000000000000476313a78",
    );
}
