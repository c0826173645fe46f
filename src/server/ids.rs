//! A server's random ids and draws, all from its seed. Refuses to know where the seed comes from.

use model::id::{EvalId, EvalToken, Uuid};
use model::random::Stream;

pub struct Ids(Stream);

impl Ids {
    pub fn new(seed: u64) -> Ids {
        Ids(Stream::new(seed, 2))
    }

    pub fn eval(&mut self) -> EvalId {
        EvalId::from_random(self.0.next_u128())
    }

    pub fn token(&mut self) -> EvalToken {
        EvalToken::from_random(self.0.next_u128())
    }

    pub fn uuid(&mut self) -> Uuid {
        Uuid::from_random(self.0.next_u128())
    }

    pub fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }
}
