//! A hash over everything that happened, and the lines themselves when one seed is looked at.

pub struct Trace {
    hash: u64,
    print: bool,
}

impl Trace {
    pub fn new(print: bool) -> Self {
        Trace { hash: 0xcbf2_9ce4_8422_2325, print }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn line(&mut self, line: &str) {
        self.bytes(line.as_bytes());
        if self.print {
            println!("{line}");
        }
    }

    /// A frame: its bytes, and nothing to be read.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for b in bytes {
            self.hash = (self.hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn number(&mut self, number: u64) {
        for b in number.to_le_bytes() {
            self.hash = (self.hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// FNV-1a, 64 bits (Fowler, Noll and Vo).
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn a_byte_of_a_frame_or_a_digest_changes_the_trace() {
    let hash_of = |frame: &[u8], digest| {
        let mut trace = Trace::new(false);
        trace.line("server  starts");
        trace.bytes(frame);
        trace.number(digest);
        trace.hash()
    };
    let same = hash_of(b"frame", 7);
    assert_eq!(same, hash_of(b"frame", 7));
    assert!(same != hash_of(b"frAme", 7) && same != hash_of(b"frame", 8));
}
