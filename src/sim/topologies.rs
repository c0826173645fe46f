//! How large a seed's region is: most have one server, a third of all seeds three, a tenth five, with fifty nodes, most of which have little to do.
//!
//! Refuses to know what runs there.

use model::random::Stream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    pub servers: usize,
    pub nodes: usize,
}

impl Topology {
    pub fn of_seed(seed: u64) -> Topology {
        match Stream::new(seed, 110).below(30) {
            0..3 => Topology { servers: 5, nodes: 50 },
            3..13 => Topology { servers: 3, nodes: 3 },
            _ => Topology { servers: 1, nodes: 3 },
        }
    }
}

#[test]
fn most_seeds_have_one_server_and_some_have_several() {
    let of = |servers| (1..=200).filter(|seed| Topology::of_seed(*seed).servers == servers).count();
    let (one, three, five) = (of(1), of(3), of(5));
    assert_eq!(one + three + five, 200);
    assert!((95..=135).contains(&one) && (50..=85).contains(&three) && (10..=32).contains(&five));
}
