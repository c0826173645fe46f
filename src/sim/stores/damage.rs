//! Damaged rows: whatever a row's bytes are, reading and applying give a result or a fault, and the checker notices.

use crate::disk::SimDisk;
use model::alloc::ClientStatus;
use model::eval::EvalStatus;
use model::id::EvalId;
use model::random::Stream;
use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use state::apply::Committed;
use state::check::consistent;
use state::checksummed;
use state::fault::Fault;
use state::log_batch::LogBatch;
use state::samples::*;
use state::store::{Options, Reader, Store};
use wire::command::Command;
use wire::record;

/// The table of replicated rows, by its name on the disk.
const STATE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("state");

/// Something of everything, closed in good order.
fn images() -> Vec<Vec<u8>> {
    let disk = SimDisk::new(1);
    let mut store = Store::open(disk.media(), Options::default()).expect("opens").0;
    let mut run = |command: &Command| {
        let bytes = record::encode(command);
        let index = store.applied() + 1;
        let batch = LogBatch { entries: vec![(index, bytes.clone())], ..LogBatch::default() };
        store.append(&batch).expect("appends");
        store.apply(&[Committed { index, command: Some(&bytes), conf_state: None }]).expect("applies");
        store.reader()
    };
    run(&Command::Init(Box::new(founding(&[1]))));
    for n in 0..3 {
        run(&Command::RegisterNode { info: Box::new(info(n)), evals: vec![], at: AT });
        let id = format!("job-{n}");
        let reader = run(&register(spec(&id, 1), Some(eval(n, &id))));
        let job = reader.view().and_then(|v| v.job(&key(&id))).expect("reads").expect("is registered");
        let nodes = place(vec![alloc(n, &job, node_id(n), eval_id(n))]);
        run(&Command::ApplyPlan {
            eval: eval_id(n),
            nodes,
            deployment: None,
            updates: vec![],
            evals: vec![],
            at: AT,
        });
    }
    drop(store);
    disk.images()
}

fn read_everything(reader: &Reader) -> Result<(), Fault> {
    let view = reader.view()?;
    let mut first = Ok(());
    let mut note = |result: Result<(), Fault>| {
        if first.is_ok() {
            first = result;
        }
    };
    for n in 0..3 {
        let job = key(&format!("job-{n}"));
        note(view.job(&job).map(drop));
        note(view.job_summary(&job).map(drop));
        note(view.job_versions(&job).map(drop));
        note(view.job_spec(&job, 3 * n as u64 + 3, 0).map(drop));
        note(view.eval(eval_id(n)).map(drop));
        note(view.evals_of_job(&job).map(drop));
        note(view.alloc(alloc_id(n)).map(drop));
        note(view.allocs_of_job(&job).map(drop));
        note(view.allocs_of_eval(eval_id(n)).map(drop));
        note(view.allocs_of_node(node_id(n)).map(drop));
        note(view.alloc_indexes_of_node(node_id(n)).map(drop));
        note(view.node(node_id(n)).map(drop));
    }
    note(view.jobs(None, "", None, 100).map(drop));
    note(view.evals(Some((1, EvalId::default())), 100).map(drop));
    note(view.allocs(None, 100).map(drop));
    note(view.nodes().map(drop));
    note(view.open_evals().map(drop));
    note(view.eval_ids("0", 9).map(drop));
    note(view.founding().map(drop));
    note(view.members().map(drop));
    first
}

/// Commands that touch every kind of row.
fn write_everything(store: &mut Store) -> Result<(), Fault> {
    for n in 0..3 {
        let job = format!("job-{n}");
        let mut done = eval(n, &job);
        done.status = EvalStatus::Complete;
        let updates = vec![report(n, ClientStatus::Failed)];
        for command in [
            Command::UpdateAllocs {
                seen: u64::MAX,
                node: node_id(n),
                updates,
                verdicts: vec![],
                evals: vec![done],
                at: AT,
            },
            Command::RegisterNode { info: Box::new(info(n)), evals: vec![], at: AT },
            register(spec(&job, 5), Some(eval(9, &job))),
            Command::PurgeJob { job: key(&job), eval: None, at: AT },
        ] {
            let bytes = record::encode(&command);
            let index = store.applied() + 1;
            store.append(&LogBatch { entries: vec![(index, bytes.clone())], ..LogBatch::default() })?;
            store.apply(&[Committed { index, command: Some(&bytes), conf_state: None }])?;
        }
    }
    Ok(())
}

fn all_rows(images: &[Vec<u8>]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let disk = SimDisk::with_images(1, images.to_vec());
    let database = redb::Builder::new().create_with_backend(disk.backend()).expect("opens");
    let table = database.begin_read().expect("begins").open_table(STATE).expect("opens");
    let row = |row: Result<_, redb::StorageError>| {
        let (k, v): (redb::AccessGuard<&[u8]>, redb::AccessGuard<&[u8]>) = row.expect("reads");
        (k.value().to_vec(), v.value().to_vec())
    };
    table.iter().expect("reads").map(row).collect()
}

/// The image with one row replaced, or removed.
fn with_row(images: &[Vec<u8>], key: &[u8], value: Option<&[u8]>) -> SimDisk {
    let disk = SimDisk::with_images(1, images.to_vec());
    let database = checksummed::open(disk.backend(), 4096).expect("opens");
    let transaction = database.begin_write().expect("begins");
    {
        let mut table = transaction.open_table(STATE).expect("opens");
        match value {
            Some(value) => drop(table.insert(key, value).expect("writes")),
            None => drop(table.remove(key).expect("removes")),
        }
    }
    transaction.commit().expect("commits");
    disk
}

/// Nothing of it, more of it, half of it, one bit of it.
fn damaged(value: &[u8], draws: &mut Stream) -> Vec<Option<Vec<u8>>> {
    let longer = [value, &[7]].concat();
    let mut out = vec![None, Some(longer)];
    if !value.is_empty() {
        out.push(Some(value[..value.len() / 2].to_vec()));
        let mut flipped = value.to_vec();
        flipped[draws.below(value.len() as u64) as usize] ^= 1 << draws.below(8);
        out.push(Some(flipped));
    }
    out
}

#[test]
fn damaged_rows_are_faults_and_the_checker_sees_every_one() {
    let images = images();
    let mut draws = Stream::new(1, 1);
    let rows = all_rows(&images);
    assert_eq!(rows.len(), 2 + 3 * 13, "the region, its server, and what is there three times");
    let (mut unopened, mut unread, mut unwritten) = (0, 0, 0);
    for (key, value) in &rows {
        for bad in damaged(value, &mut draws) {
            let disk = with_row(&images, key, bad.as_deref());
            let Ok((mut store, _)) = Store::open(disk.media(), Options::default()) else {
                unopened += 1;
                continue;
            };
            let checked = store.reader().view().map(|v| consistent(&v)).expect("a view is made");
            assert!(checked.is_err(), "{key:?}: {value:?} became {bad:?}");
            unread += u32::from(read_everything(&store.reader()).is_err());
            unwritten += u32::from(write_everything(&mut store).is_err());
        }
    }
    println!("{} rows: {unopened} not opened, {unread} not read, {unwritten} not written", rows.len());
    assert!(unopened > 5 && unread > 20 && unwritten > 20);
}
