//! The wall clock as a server knows it: told with its turns, and gone on since at the pace of the monotonic clock. Refuses to
//! know whether it is right.

use model::time::{Mono, Now, Wall};

/// The newest wall time known, and when that was.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    wall: Wall,
    mono: Mono,
}

impl Default for WallClock {
    fn default() -> Self {
        WallClock { wall: Wall::NEVER, mono: Mono::default() }
    }
}

impl WallClock {
    pub fn set(&mut self, now: Now) {
        if let Some(wall) = now.wall {
            *self = WallClock { wall, mono: now.mono };
        }
    }

    pub fn is_set(&self) -> bool {
        !self.wall.is_never()
    }

    /// The clock's time, or what it would be if it had gone on since it was last known.
    pub fn at(&self, mono: Mono) -> Wall {
        self.wall + mono.since(self.mono)
    }

    /// When it will show that time. `None`: it was never set.
    pub fn when(&self, wall: Wall) -> Option<Mono> {
        self.is_set().then(|| self.mono.after(wall - self.wall))
    }
}
