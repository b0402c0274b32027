//! The text the demo trainer learns from, and the order in which it is read.

use anyhow::{Result, ensure};
use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::model::CONTEXT;

/// About 20 KiB of plain sentences on locks and sluices, written for this trainer.
const CORPUS: &str = include_str!("corpus.txt");

/// One thing to learn: after `context` comes `target`. Both are token numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) context: [u8; CONTEXT],
    pub(crate) target: u8,
}

/// The token of a character: 0 for the newline, 1..=95 for printable ASCII; whatever else a
/// client may send counts as a blank.
pub(crate) fn token(character: u8) -> u8 {
    match character {
        b'\n' => 0,
        b' '..=b'~' => character - b' ' + 1,
        _ => 1,
    }
}

/// The character of a token; the reverse of [`token`].
pub(crate) fn character(token: u8) -> char {
    if token == 0 { '\n' } else { char::from(token - 1 + b' ') }
}

/// The corpus as tokens.
#[derive(Debug)]
pub(crate) struct Corpus {
    tokens: Vec<u8>,
}

impl Corpus {
    pub(crate) fn built_in() -> Corpus {
        Corpus { tokens: CORPUS.bytes().map(token).collect() }
    }

    /// Number of examples: every character that has a whole context before it.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len() - CONTEXT
    }

    /// The example at `index`, `0..len()`.
    pub(crate) fn example(&self, index: usize) -> Example {
        let context = self.tokens[index..index + CONTEXT].try_into();
        let context = context.expect("a slice of CONTEXT tokens");
        Example { context, target: self.tokens[index + CONTEXT] }
    }
}

/// Where in which epoch's shuffled order the trainer is: what `rng_state*.pth` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// State of the random number generator before the epoch was shuffled.
    pub(crate) epoch_seed: u64,
    /// Examples of the epoch already used.
    pub(crate) used: usize,
}

/// Deals every example once per epoch, in an order drawn from the seed.
///
/// All ranks deal the same cards and each plays its own share, so the order does not depend on
/// the number of ranks.
#[derive(Debug)]
pub(crate) struct Sampler {
    rng: Rng,
    order: Vec<usize>,
    position: Position,
}

impl Sampler {
    /// Starts an epoch of `len` examples with the generator as it is.
    pub(crate) fn new(mut rng: Rng, len: usize) -> Sampler {
        let position = Position { epoch_seed: rng.get_seed(), used: 0 };
        let mut order: Vec<usize> = (0..len).collect();
        rng.shuffle(&mut order);
        Sampler { rng, order, position }
    }

    /// Goes back to a saved position.
    ///
    /// # Errors
    /// If the position lies outside the epoch: then the corpus was another one.
    pub(crate) fn at(position: Position, len: usize) -> Result<Sampler> {
        let used = position.used;
        ensure!(used <= len, "{used} examples used of an epoch of {len}; was the corpus changed?");
        let mut sampler = Sampler::new(Rng::with_seed(position.epoch_seed), len);
        sampler.position.used = used;
        Ok(sampler)
    }

    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// The next `count` indices. A rest too small for a batch is dropped and a new epoch begins.
    pub(crate) fn next_batch(&mut self, count: usize) -> &[usize] {
        assert!(count <= self.order.len(), "a batch is smaller than an epoch");
        if self.position.used + count > self.order.len() {
            *self = Sampler::new(self.rng.clone(), self.order.len());
        }
        let start = self.position.used;
        self.position.used += count;
        &self.order[start..start + count]
    }
}

#[cfg(test)]
mod tests;
