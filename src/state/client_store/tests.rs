//! The client's store on a disk that loses what was not synced, fills up, and holds rows that nobody can read.

use super::disk::Disk;
use super::*;
use model::alloc::DesiredStatus;
use model::id::JobKey;
use model::job::JobType;
use model::member::ServerAddress;
use model::resources::AllocResources;
use model::samples;

fn id(n: u8) -> AllocId {
    AllocId(Uuid::from_bytes([n; 16]))
}

fn head(n: u8) -> AllocRecord {
    let assignment = Assignment {
        id: id(n),
        name: "j.g[0]".into(),
        job: JobKey::new("default", "j"),
        job_name: "j".into(),
        job_type: JobType::Service,
        job_version: 0,
        job_meta: BTreeMap::new(),
        region: "global".into(),
        group: samples::group("g", 1, vec![]),
        resources: AllocResources::default(),
        desired: DesiredStatus::Run,
        previous: None,
        alloc_modify_index: 7,
        deployment: None,
        job_parent: String::new(),
        payload: Vec::new(),
        preempted: vec![],
        no_shutdown_delay: false,
    };
    AllocRecord { assignment, dir_built: false, retention: Retention::Kept, health: None, received: Wall(1) }
}

fn open(bytes: &Disk) -> (ClientStore, Vec<RecoveredAlloc>) {
    ClientStore::open(bytes.files()).expect("the bytes are sound")
}

fn durable(change: impl FnOnce(&mut WriteBatch)) -> WriteBatch {
    let mut writes = WriteBatch::default();
    change(&mut writes);
    writes.require_durable();
    writes
}

#[test]
fn durable_changes_outlive_a_power_cut_and_take_lazy_ones_along() {
    let bytes = Disk::default();
    let (mut store, found) = open(&bytes);
    assert_eq!(found, []);
    let mut lazy = WriteBatch::default();
    lazy.put_alloc(&head(1));
    assert!(!store.commit(lazy).expect("sound").durable());
    assert_eq!(open(&bytes.after_power_cut()).1, []);

    let task = TaskRecord { set_up: true, ..TaskRecord::default() };
    let mut durable = WriteBatch::default();
    durable.put_task(id(1), "web", &task);
    durable.set_ended(id(9), true);
    durable.require_durable();
    assert!(store.commit(durable).expect("sound").durable());
    let (store, found) = open(&bytes.after_power_cut());
    let tasks = [("web".to_string(), task)].into();
    assert_eq!(found, [RecoveredAlloc { record: head(1), tasks }]);
    assert_eq!(store.ended(), &[id(9)].into());
}

#[test]
fn removed_rows_are_gone_and_empty_commits_write_nothing() {
    let bytes = Disk::default();
    let (mut store, _) = open(&bytes);
    let mut writes = WriteBatch::default();
    writes.put_alloc(&head(1));
    writes.put_task(id(1), "web", &TaskRecord::default());
    store.commit(writes).expect("sound");
    let mut removal = WriteBatch::default();
    removal.remove(id(1), ["web"].into_iter());
    removal.require_durable();
    store.commit(removal).expect("sound");
    let (syncs, before) = bytes.with(|b| (b.syncs, b.written.clone()));
    assert!(!store.commit(WriteBatch::default()).expect("sound").durable());
    assert_eq!(bytes.with(|b| (b.syncs, b.written.clone())), (syncs, before));
    assert_eq!(open(&bytes.after_power_cut()).1, []);
}

#[test]
fn unreadable_rows_are_kept_and_reported() {
    let bytes = Disk::default();
    let (mut store, _) = open(&bytes);
    let head_of = |n, row| (key_of(ALLOC_ROW, id(n), ""), Some(row));
    let rows = [
        head_of(1, vec![]),
        head_of(2, vec![9, 9]),
        head_of(3, record::encode(&head(4))),
        head_of(5, record::encode(&head(5))),
        (key_of(TASK_ROW, id(5), "web"), Some(vec![7])),
        (vec![ENDED_ROW, 1], Some(vec![])),
    ];
    store.commit(WriteBatch { rows: rows.into(), durable: true }).expect("sound");
    let (mut store, found) = open(&bytes.after_power_cut());
    assert_eq!(found.iter().map(|a| a.record.assignment.id).collect::<Vec<_>>(), [id(5)]);
    assert_eq!(store.unreadable_rows().len(), 5, "{:?}", store.unreadable_rows());
    assert!(store.unreadable_rows()[3].starts_with("task web of allocation 05050505"));
    store.begin_segment().expect("sound");
    assert_eq!(store.rows.len(), 6, "nothing of them is lost when the log begins anew");
}

/// What a store must show after it was opened, and that it shows it.
#[track_caller]
fn assert_holds(bytes: &Disk, wanted: &[u8]) {
    let (_, found) = open(bytes);
    let found: Vec<_> = found.into_iter().map(|alloc| alloc.record).collect();
    assert_eq!(found, wanted.iter().map(|n| head(*n)).collect::<Vec<_>>());
}

#[test]
fn a_log_that_has_grown_begins_anew_with_all_rows() {
    let bytes = Disk::default();
    let (mut store, _) = ClientStore::open_with(bytes.files(), 32 << 10).expect("sound");
    let (mut begun, mut longest) = (0, 0);
    for round in 0..100 {
        let frames = store.frames;
        let n = round % 7;
        store.commit(durable(|w| w.remove(id(n), ["web"].into_iter()))).expect("sound");
        store.commit(durable(|w| w.put_alloc(&head(n)))).expect("sound");
        begun += u32::from(store.frames < frames);
        longest = longest.max(store.log.bytes());
        let kept: Vec<u8> = (0..=round.min(6)).collect();
        assert_holds(&bytes.after_power_cut(), &kept);
    }
    assert!(begun > 10 && longest < 64 << 10, "{begun} times, up to {longest} bytes");
}

#[test]
fn a_row_that_the_log_has_is_not_written_again() {
    let bytes = Disk::default();
    let (mut store, _) = open(&bytes);
    store.commit(durable(|w| w.put_alloc(&head(1)))).expect("sound");
    let (syncs, before) = bytes.with(|b| (b.syncs, b.written.clone()));
    let again = store.commit(durable(|w| w.put_alloc(&head(1)))).expect("sound");
    assert!(again.durable(), "it has been since");
    assert_eq!(bytes.with(|b| (b.syncs, b.written.clone())), (syncs, before));
}

#[test]
fn a_failed_sync_is_not_tried_again_on_the_same_store() {
    let bytes = Disk::default();
    let (mut store, _) = open(&bytes);
    bytes.with(|b| b.fails = true);
    store.commit(durable(|w| w.put_alloc(&head(1)))).expect_err("the sync fails");
    let syncs = bytes.syncs();
    store.commit(durable(|w| w.put_alloc(&head(2)))).expect_err("it has failed");
    assert_eq!(bytes.syncs(), syncs);
    let (_, found) = open(&bytes);
    assert_eq!(
        (found.len(), bytes.syncs()),
        (1, syncs + 1),
        "what the next one finds is synced before it counts"
    );
    assert_holds(&bytes.after_power_cut(), &[1]);
}

#[test]
fn another_format_is_refused() {
    let bytes = Disk::default();
    let head = record::encode(&ClientLogHead { format: FORMAT + 1, frames_before: 0 });
    Wal::create(bytes.files(), 0, &head).expect("sound");
    let refused = ClientStore::open(bytes.files()).map(|_| ());
    assert_eq!(refused, Err(ClientStoreOpenError::Format { found: Some(FORMAT + 1), known: FORMAT }));
    for other in [vec![0x5a; 64 << 10], vec![0x5a; 100], vec![0; 4096]] {
        let other = Disk::new([other, vec![]]);
        assert!(matches!(ClientStore::open(other.files()), Err(ClientStoreOpenError::Damaged(_))));
    }
}

#[test]
fn a_segment_before_that_lacks_frames_is_damage() {
    let bytes = Disk::default();
    let (mut store, _) = open(&bytes);
    store.commit(durable(|w| w.put_alloc(&head(1)))).expect("sound");
    let before = bytes.after_power_cut();
    store
        .log
        .begin_segment(1, &record::encode(&ClientLogHead { format: FORMAT, frames_before: store.frames }))
        .expect("sound");
    assert_holds(&bytes.after_power_cut(), &[1]);
    let [_, begun] = bytes.with(|b| b.synced.clone());
    let [mut rotten, _] = before.with(|b| b.synced.clone());
    rotten[3 * 4096 + 60] ^= 1;
    let refused = ClientStore::open(Disk::new([rotten, begun]).files()).map(|_| ());
    assert!(matches!(refused, Err(ClientStoreOpenError::Damaged(_))), "{refused:?}");
}

#[test]
fn another_generation_is_durable_and_a_newer_index_rides_along() {
    let bytes = Disk::default();
    let (mut store, _) = open(&bytes);
    let generation = |restores| Generation { region_id: Uuid::from_bytes([7; 16]), restores };
    let mut show = |restores, index, is_other| {
        let mut writes = WriteBatch::default();
        writes.set_shown(&ShownState { generation: generation(restores), index }, is_other);
        store.commit(writes).expect("sound");
        let found = open(&bytes.after_power_cut()).0.shown();
        (found.generation.restores, found.index)
    };
    assert_eq!(show(1, 9, true), (1, 9));
    assert_eq!(show(1, 10, false), (1, 9), "it is no promise");
    assert_eq!(show(2, 3, true), (2, 3));
    assert_eq!(show(2, 4, false), (2, 3));
    store.commit(durable(|w| w.put_alloc(&head(1)))).expect("sound");
    assert_eq!(open(&bytes.after_power_cut()).0.shown().index, 4, "with what is one");
}

#[test]
fn the_list_of_servers_outlives_a_power_cut() {
    let bytes = Disk::default();
    let (mut store, _) = open(&bytes);
    assert_eq!(store.servers(), &ServerList::default());
    let servers = vec![ServerAddress { id: 7, rpc_addr: "10.0.0.7:4647".into() }];
    let list = ServerList { index: 9, servers };
    let mut writes = WriteBatch::default();
    writes.set_servers(&list);
    store.commit(writes).expect("sound");
    assert_eq!(open(&bytes.after_power_cut()).0.servers(), &list);
}
