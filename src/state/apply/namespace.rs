//! Namespaces: written, and deleted when no job in them can run any more (server.md 19).
//! Refuses to know what they allow: the proposer of a registration has checked that.

use super::super::fault::Fault;
use super::super::tables::{self, JobRow, Part};
use super::super::view::{self, Table};
use super::{ApplyTxn, Reply};
use model::canonical::DEFAULT_NAMESPACE;
use model::job::{JobSpec, JobStatus};
use model::namespace::{Namespace, NamespaceSpec};
use wire::change::Change;
use wire::request::{Refusal, RefusalKind, WriteReply};

impl ApplyTxn<'_> {
    /// Writes a namespace, unless it is as before.
    pub(super) fn upsert_namespace(&mut self, spec: NamespaceSpec) -> Result<Reply, Fault> {
        let index = self.index();
        let known = view::read_namespace(&self.rows, &spec.name)?;
        if known.as_ref().is_none_or(|known| known.spec != spec) {
            let create_index = known.map_or(index, |known| known.create_index);
            let key = tables::namespace_key(&spec.name);
            self.put(&key, &Namespace { spec, create_index, modify_index: index })?;
            self.namespaces_changed();
        }
        Ok(Ok(WriteReply::Written { index }))
    }

    pub(super) fn delete_namespace(&mut self, name: &str) -> Result<Reply, Fault> {
        let refuse = |kind, message: String| Ok(Err(Refusal::new(kind, message)));
        if name == DEFAULT_NAMESPACE {
            return refuse(RefusalKind::Conflict, "can not delete default namespace".into());
        }
        if view::read_namespace(&self.rows, name)?.is_none() {
            return refuse(RefusalKind::NotFound, "Namespace not found".into());
        }
        let here = tables::namespace_bytes(name);
        if let Some(region) = self.region_of_live_job(&here, |_| true)? {
            let message = format!("namespace {name:?} has non-terminal jobs in regions: [{region}]");
            return refuse(RefusalKind::Conflict, message);
        }
        self.remove(&tables::namespace_key(name))?;
        self.namespaces_changed();
        Ok(Ok(WriteReply::Written { index: self.index() }))
    }

    fn namespaces_changed(&mut self) {
        self.set_table_index(Table::Namespaces);
        self.changes.push(Change::Namespace);
    }

    /// The region of a live job among those whose keys begin so. `None`: all of them are dead, or there is none.
    pub(super) fn region_of_live_job(
        &self,
        prefix: &[u8],
        is_meant: impl Fn(&JobSpec) -> bool,
    ) -> Result<Option<String>, Fault> {
        let mut found = None;
        tables::each_job(&self.rows, prefix, None, |key, bytes| {
            let row: Option<JobRow> = tables::get(&self.rows, &Part::Row.key(bytes, &[]))?;
            if let Some(row) = row
                && row.newest()?.status != JobStatus::Dead
            {
                let spec = self.newest_spec(key, &row)?;
                found = is_meant(&spec).then_some(spec.region);
            }
            Ok(found.is_none())
        })?;
        Ok(found)
    }
}
