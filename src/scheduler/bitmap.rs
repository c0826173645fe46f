//! A set of fleet slots as one bit each. Refuses to know what a slot holds.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap(Vec<u64>);

impl Bitmap {
    /// Room for `slots` slots, none of them in the set.
    pub fn none(slots: usize) -> Self {
        Bitmap(vec![0; slots.div_ceil(64)])
    }

    pub fn insert(&mut self, slot: u32) {
        let word = self.0.get_mut(slot as usize / 64).expect("a set has room for each slot of its fleet");
        *word |= 1 << (slot % 64);
    }

    pub fn contains(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    /// Takes out what is not in `keep`, and returns it.
    pub fn split_off_all_but(&mut self, keep: &Bitmap) -> Bitmap {
        assert_eq!(self.0.len(), keep.0.len(), "sets of one fleet have the same room");
        let mut out = Bitmap(vec![0; self.0.len()]);
        for (i, word) in self.0.iter_mut().enumerate() {
            let kept = *word & keep.0.get(i).copied().unwrap_or(0);
            out.0[i] = *word & !kept;
            *word = kept;
        }
        out
    }

    pub fn len(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(i as u32 * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(slots: &[u32]) -> Bitmap {
        let mut bits = Bitmap::none(200);
        slots.iter().for_each(|s| bits.insert(*s));
        bits
    }

    #[test]
    fn iter_returns_the_inserted_slots() {
        let bits = of(&[0, 63, 64, 199]);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 199]);
        assert_eq!(bits.len(), 4);
        assert!(bits.contains(64) && !bits.contains(65) && !bits.contains(100_000));
    }

    #[test]
    fn splitting_keeps_every_member_on_one_side() {
        let mut kept = of(&[1, 2, 70]);
        assert_eq!(kept.split_off_all_but(&of(&[2, 3])), of(&[1, 70]));
        assert_eq!(kept, of(&[2]));
    }
}
