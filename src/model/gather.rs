//! Filling an ordered map or set item by item.
//!
//! `collect` sorts before it builds the tree, and the compiler makes one more sort, of some six kilobytes, for each place
//! that does so: together they were a twentieth of the binary. The maps here are small; inserting is as fast.
//!
//! Refuses to know: what is in them.

/// `collect` for `BTreeMap`, `BTreeSet` and `serde_json::Map`.
pub trait Gather: Iterator + Sized {
    /// A later value replaces an earlier one of the same key.
    fn gather<M: Default + Extend<Self::Item>>(self) -> M {
        let mut all = M::default();
        all.extend(self);
        all
    }

    /// Ends at the first error.
    fn try_gather<T, E, M>(mut self) -> Result<M, E>
    where
        Self: Iterator<Item = Result<T, E>>,
        M: Default + Extend<T>,
    {
        let mut all = M::default();
        self.try_for_each(|item| item.map(|item| all.extend([item])))?;
        Ok(all)
    }
}

impl<I: Iterator> Gather for I {}
