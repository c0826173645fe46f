//! Work beside the executor: what may block goes to a thread of its own, and tasks run by themselves.
//!
//! Both are made once, for boxes, instead of anew for every closure and future: 60 KB of the binary.

use smol::{Executor, Task};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

/// What the work comes to. Work that has not begun is left undone when nobody waits for it any more.
pub async fn unblock<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = Arc::new(Mutex::new(None));
    let to_fill = done.clone();
    unblock_boxed(Box::new(move || {
        let found = work();
        *to_fill.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
    }))
    .await;
    // a panic of the work has gone on to here by itself
    done.lock().unwrap_or_else(PoisonError::into_inner).take().expect("the work has been done")
}

async fn unblock_boxed(work: Box<dyn FnOnce() + Send>) {
    smol::unblock(work).await;
}

pub fn spawn<'a>(executor: &Executor<'a>, task: impl Future<Output = ()> + Send + 'a) -> Task<()> {
    spawn_boxed(executor, Box::pin(task))
}

fn spawn_boxed<'a>(executor: &Executor<'a>, task: Pin<Box<dyn Future<Output = ()> + Send + 'a>>) -> Task<()> {
    executor.spawn(task)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_comes_to_what_it_came_to_and_its_panic_goes_on() {
        assert_eq!(smol::block_on(unblock(|| 1 + 1)), 2);
        let failing = std::panic::AssertUnwindSafe(|| smol::block_on(unblock(|| panic!("in the work"))));
        let panic = std::panic::catch_unwind(failing).map(|()| "none").expect_err("the work panics");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the work"));
    }

    #[test]
    fn tasks_run_by_themselves() {
        let executor = Executor::new();
        let (sender, receiver) = async_channel::bounded(1);
        spawn(&executor, async move { sender.send(7).await.unwrap_or_default() }).detach();
        assert_eq!(smol::block_on(executor.run(receiver.recv())), Ok(7));
    }
}
