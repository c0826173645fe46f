//! The node's metadata: what its configuration says, and over it what was set while it ran. The node
//! stores the latter before it reports it to anybody.

use super::brain::Client;
use model::node::NodeInfo;
use model::time::Now;
use state::client_store::WriteBatch;
use std::collections::BTreeMap;
use wire::client_rpc::ClientReply;
use wire::request::{Refusal, RefusalKind};

/// The most that may be set, in keys and in bytes of keys and values.
const MAX_KEYS: usize = 1000;
const MAX_BYTES: usize = 64 << 10;

impl Client {
    /// Applies a new fingerprint.
    pub(super) fn apply_fingerprint(&mut self, now: Now, info: Box<NodeInfo>) {
        self.configured_meta.clone_from(&info.meta);
        self.report_change(now, info);
    }

    fn report_change(&mut self, now: Now, mut info: Box<NodeInfo>) {
        info.meta.clone_from(&self.configured_meta);
        for (key, value) in &self.dynamic_meta.0 {
            match value {
                Some(value) => info.meta.insert(key.clone(), value.clone()),
                None => info.meta.remove(key),
            };
        }
        self.info = Some(info);
        self.describe(now.mono);
    }

    /// Sets metadata. `None` unsets a key, also one that the configuration sets.
    pub(super) fn set_metadata(
        &mut self,
        now: Now,
        changes: &BTreeMap<String, Option<String>>,
        writes: &mut WriteBatch,
    ) -> Result<ClientReply, Refusal> {
        let Some(info) = self.info.clone() else {
            let why = "the node is still looking at its machine: try again in a second";
            return Err(Refusal::new(RefusalKind::Unavailable, why));
        };
        let mut dynamic = self.dynamic_meta.clone();
        for (key, value) in changes {
            check_key(key)?;
            if value.is_none() && !self.configured_meta.contains_key(key) {
                dynamic.0.remove(key);
            } else {
                dynamic.0.insert(key.clone(), value.clone());
            }
        }
        let bytes: usize = dynamic.0.iter().map(|(k, v)| k.len() + v.as_ref().map_or(0, String::len)).sum();
        if dynamic.0.len() > MAX_KEYS || bytes > MAX_BYTES {
            let why =
                format!("a node's metadata may have {MAX_KEYS} keys and {MAX_BYTES} bytes: unset some first");
            return Err(Refusal::new(RefusalKind::Invalid, why));
        }
        if dynamic != self.dynamic_meta {
            writes.set_dynamic_meta(&dynamic);
            self.dynamic_meta = dynamic;
            self.report_change(now, info);
        }
        Ok(self.metadata())
    }

    pub(super) fn metadata(&self) -> ClientReply {
        ClientReply::Metadata {
            meta: self.info.as_ref().map(|i| i.meta.clone()).unwrap_or_default(),
            dynamic: self.dynamic_meta.0.clone(),
            configured: self.configured_meta.clone(),
        }
    }
}

/// A key has to fit into `${meta.KEY}`.
fn check_key(key: &str) -> Result<(), Refusal> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    if key.is_empty() || key.len() > 200 || !key.chars().all(known) {
        let why = format!("the metadata key {key:?} must be 1 to 200 of A-Z a-z 0-9 . _ - /");
        return Err(Refusal::new(RefusalKind::Invalid, why));
    }
    Ok(())
}
