//! The client's store on a disk that loses what was not synced, fills up, and holds rows that nobody can read.

use super::disk::Disk;
use super::*;
use model::alloc::DesiredStatus;
use model::claims::GroupAsks;
use model::id::JobKey;
use model::job::{JobType, RestartMode, RestartPolicy, TaskGroup};
use model::resources::AllocResources;
use model::time::Span;

fn id(n: u8) -> AllocId {
    AllocId(Uuid::from_bytes([n; 16]))
}

fn head(n: u8) -> AllocRecord {
    let restart = RestartPolicy {
        attempts: 2,
        interval: Span::minutes(30),
        delay: Span::seconds(15),
        mode: RestartMode::Fail,
        render_templates: false,
    };
    let group = TaskGroup {
        name: "g".into(),
        count: 1,
        constraints: vec![],
        affinities: vec![],
        spreads: vec![],
        restart,
        reschedule: None,
        update: None,
        migrate: None,
        ephemeral_disk_mb: 300,
        shutdown_delay: None,
        tasks: vec![],
        meta: BTreeMap::new(),
        disconnect: None,
        asks: GroupAsks::default(),
        scaling: None,
    };
    let assignment = Assignment {
        id: id(n),
        name: "j.g[0]".into(),
        job: JobKey::new("default", "j"),
        job_name: "j".into(),
        job_type: JobType::Service,
        job_version: 0,
        job_meta: BTreeMap::new(),
        region: "global".into(),
        group,
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
    AllocRecord { assignment, dir_built: false, retention: Retention::Kept, found: None }
}

fn open(bytes: &Disk) -> (ClientStore, Vec<RecoveredAlloc>) {
    ClientStore::open(bytes.clone()).expect("the bytes are sound")
}

#[test]
fn durable_changes_outlive_a_power_cut_and_take_lazy_ones_along() {
    let bytes = Disk::default();
    let (mut store, found) = open(&bytes);
    assert_eq!(found, []);
    let mut lazy = WriteBatch::default();
    lazy.put_alloc(&head(1));
    assert!(!store.commit(&lazy).expect("sound").durable());
    assert_eq!(open(&bytes.after_power_cut()).1, []);

    let task = TaskRecord { set_up: true, ..TaskRecord::default() };
    let mut durable = WriteBatch::default();
    durable.put_task(id(1), "web", &task);
    durable.set_ended(id(9), true);
    durable.require_durable();
    assert!(store.commit(&durable).expect("sound").durable());
    let (store, found) = open(&bytes.after_power_cut());
    let tasks = [("web".to_string(), task)].into();
    assert_eq!(found, [RecoveredAlloc { head: head(1), tasks }]);
    assert_eq!(store.ended(), &[id(9)].into());
}

#[test]
fn what_is_removed_is_gone_and_nothing_costs_nothing() {
    let bytes = Disk::default();
    let (mut store, _) = open(&bytes);
    let mut writes = WriteBatch::default();
    writes.put_alloc(&head(1));
    writes.put_task(id(1), "web", &TaskRecord::default());
    store.commit(&writes).expect("sound");
    let mut removal = WriteBatch::default();
    removal.remove(id(1), ["web"].into_iter());
    removal.require_durable();
    store.commit(&removal).expect("sound");
    let (syncs, before) = bytes.with(|b| (b.syncs, b.written.clone()));
    assert!(!store.commit(&WriteBatch::default()).expect("sound").durable());
    assert_eq!(bytes.with(|b| (b.syncs, b.written.clone())), (syncs, before));
    assert_eq!(open(&bytes.after_power_cut()).1, []);
}

#[test]
fn rows_that_cannot_be_read_are_set_aside() {
    let bytes = Disk::default();
    let (store, _) = open(&bytes);
    let tx = store.db.begin_write().expect("sound");
    let head_of = |n, row| (key_of(ALLOC_ROW, id(n), ""), row);
    let rows = [
        head_of(1, vec![]),
        head_of(2, vec![9, 9]),
        head_of(3, record::encode(&head(4))),
        head_of(5, record::encode(&head(5))),
        (key_of(TASK_ROW, id(5), "web"), vec![7]),
        (vec![ENDED_ROW, 1], vec![]),
    ];
    for (key, row) in rows {
        tx.open_table(ROWS).expect("sound").insert(key.as_slice(), row.as_slice()).expect("sound");
    }
    tx.commit().expect("sound");
    let (store, found) = open(&bytes.after_power_cut());
    assert_eq!(found.iter().map(|a| a.head.assignment.id).collect::<Vec<_>>(), [id(5)]);
    assert_eq!(store.unreadable_rows().len(), 5, "{:?}", store.unreadable_rows());
    assert!(store.unreadable_rows()[3].starts_with("task web of allocation 05050505"));
}

#[test]
fn another_format_is_refused() {
    let bytes = Disk::default();
    let (store, _) = open(&bytes);
    let tx = store.db.begin_write().expect("sound");
    let newer = (FORMAT + 1).to_be_bytes();
    tx.open_table(ROWS).expect("sound").insert([FORMAT_ROW].as_slice(), newer.as_slice()).expect("sound");
    tx.commit().expect("sound");
    let refused = ClientStore::open(bytes.after_power_cut()).map(|_| ());
    assert_eq!(refused, Err(ClientStoreOpenError::Format { found: Some(FORMAT + 1), known: FORMAT }));
    let noise = Disk::new(vec![0x5a; 8192]);
    assert!(matches!(ClientStore::open(noise), Err(ClientStoreOpenError::Damaged(_))));
}

#[test]
fn another_table_layout_is_not_an_empty_store() {
    let bytes = Disk::default();
    let db = redb::Builder::new().create_with_backend(bytes.clone()).expect("sound");
    let tx = db.begin_write().expect("sound");
    let meta = TableDefinition::<&str, u64>::new("meta");
    tx.open_table(meta).expect("sound").insert("format", 1).expect("sound");
    tx.commit().expect("sound");
    drop(db);
    let refused = ClientStore::open(bytes).map(|_| ());
    assert_eq!(refused, Err(ClientStoreOpenError::Format { found: None, known: FORMAT }));
}
