//! Bits that a medium gives back otherwise than they were written, beside the bytes themselves: whoever mends them has the true
//! ones still.
//!
//! Refuses to know which bytes matter. What is written over is sound again. One thing is spared: what the last syncs before
//! a power cut wrote, until somebody has opened it. The proof that those syncs were acknowledged may have gone with the
//! power; then nobody could tell a rotten commit from one that was cut off.

use std::collections::BTreeMap;
use std::ops::Range;

type Bits = BTreeMap<usize, u8>;

#[derive(Debug, Default)]
pub(super) struct BitRot {
    /// As processes see the medium: the bits that are wrong, by place.
    visible: Bits,
    /// As a power cut would leave it.
    durable: Bits,
    /// What the last sync wrote, and the one before it.
    fresh: [Vec<Range<usize>>; 2],
    /// The power was cut, and nobody has opened what it left.
    unopened: bool,
}

fn forget(bits: &mut Bits, place: Range<usize>) {
    let gone: Vec<usize> = bits.range(place).map(|(at, _)| *at).collect();
    for at in gone {
        bits.remove(&at);
    }
}

impl BitRot {
    /// False: this place is spared.
    pub fn flip(&mut self, at: usize, mask: u8) -> bool {
        if self.unopened && self.fresh.iter().flatten().any(|place| place.contains(&at)) {
            return false;
        }
        for bits in [&mut self.visible, &mut self.durable] {
            *bits.entry(at).or_default() ^= mask;
            bits.retain(|_, mask| *mask != 0);
        }
        true
    }

    pub fn is_any(&self) -> bool {
        !self.visible.is_empty() || !self.durable.is_empty()
    }

    /// What a read at `offset` gives.
    pub fn show(&self, offset: usize, out: &mut [u8]) {
        for (at, mask) in self.visible.range(offset..offset + out.len()) {
            out[at - offset] ^= mask;
        }
    }

    pub fn written(&mut self, place: Range<usize>) {
        forget(&mut self.visible, place);
    }

    pub fn synced(&mut self, places: Vec<Range<usize>>) {
        self.durable.clone_from(&self.visible);
        if !self.unopened {
            let [last, _] = std::mem::take(&mut self.fresh);
            self.fresh = [places, last];
        }
    }

    /// What was not synced is gone, and the medium is read again.
    pub fn forget_unsynced(&mut self, length: usize) {
        self.visible.clone_from(&self.durable);
        self.visible.split_off(&length);
    }

    /// A sector of an unsynced write outlives the power.
    pub fn kept(&mut self, place: Range<usize>) {
        forget(&mut self.durable, place);
    }

    pub fn cut_power(&mut self) {
        self.visible.clone_from(&self.durable);
        self.unopened = true;
    }

    pub fn shorten(&mut self, length: usize) {
        self.visible.split_off(&length);
    }

    pub fn mend(&mut self) {
        self.visible.clear();
        self.durable.clear();
    }

    /// Somebody has opened what lies here and holds it for good: those bits are the true ones from now on. Gives them, as
    /// processes see them and as a power cut would leave them.
    pub fn settle(&mut self) -> [Vec<(usize, u8)>; 2] {
        self.unopened = false;
        [&mut self.visible, &mut self.durable].map(|bits| std::mem::take(bits).into_iter().collect())
    }
}
