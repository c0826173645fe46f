//! Mutations of bytes from a seed: what a fuzzer does, a little and always the same.

/// xorshift64*; the constant is its author's.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap_or_default() % below.max(1)
    }
}

const PIECES: [&str; 40] = [
    "{",
    "}",
    "\"",
    "${",
    "%{",
    "[",
    "]",
    "(",
    ")",
    "=",
    "\n",
    "<<EOF\n",
    "~}",
    "dynamic ",
    "for x in ",
    "...",
    "*",
    ".",
    ",",
    "null",
    "-",
    "9999999999999999999999",
    "é",
    "\\u",
    "var.",
    "local.",
    "1e400",
    "%2F",
    "%00",
    "?",
    "&index=",
    "..",
    " and ",
    "not ",
    " in ",
    "true",
    "-1.5",
    "{}",
    "[{}]",
    "0",
];

/// `other`: what parts may be taken from.
pub fn mutate(seed: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(bytes.len() + 1);
        match dice.roll(7) {
            0 => drop(bytes.drain(at..(at + dice.roll(12)).min(bytes.len()))),
            1 => drop(bytes.splice(at..at, PIECES[dice.roll(PIECES.len())].bytes())),
            2 => {
                let copy = bytes[at..(at + dice.roll(40)).min(bytes.len())].to_vec();
                let to = dice.roll(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            3 if !bytes.is_empty() => {
                let (i, j) = (dice.roll(bytes.len()), dice.roll(bytes.len()));
                bytes.swap(i, j);
            }
            4 if at < bytes.len() => bytes[at] ^= 1 << dice.roll(8),
            5 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.roll(5)],
            6 if !other.is_empty() => {
                let from = dice.roll(other.len());
                let part = other[from..(from + dice.roll(60)).min(other.len())].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {}
        }
    }
    bytes
}
