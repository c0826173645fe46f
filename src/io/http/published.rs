//! A value that is replaced whole and read without waiting for its writer.

use std::sync::{Arc, PoisonError, RwLock};

#[derive(Debug)]
pub struct Published<T>(RwLock<Arc<T>>);

impl<T> Published<T> {
    pub fn new(value: T) -> Published<T> {
        Published(RwLock::new(Arc::new(value)))
    }

    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }

    pub fn get(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
