//! Order in which several programs, or several settings of one, take turns.

use super::chance::Chance;

/// Order of `count` contenders in one round, from 0: ascending in even rounds, descending in odd
/// ones. Over an even number of rounds, a linear drift (a disk that fills, a machine that warms up)
/// then affects all contenders equally.
pub fn order(count: usize, round: u32) -> Vec<usize> {
    let forth = 0..count;
    if round.is_multiple_of(2) { forth.collect() } else { forth.rev().collect() }
}

/// For each round of two contenders, whether the second begins. It is drawn at random in even
/// rounds and the opposite in odd ones, so that neither a drift nor a rhythm favours a contender.
pub fn by_chance(rounds: u32, seed: u64) -> Vec<bool> {
    let mut chance = Chance::new(seed);
    let mut first = false;
    let of_round = |round: u32| {
        first = if round.is_multiple_of(2) { chance.below(2) == 1 } else { !first };
        first
    };
    (0..rounds).map(of_round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_and_every_other_round_reversed() {
        assert_eq!(order(3, 0), [0, 1, 2]);
        assert_eq!(order(3, 1), [2, 1, 0]);
        assert_eq!(order(3, 2), [0, 1, 2]);
        assert!(order(0, 7).is_empty());
    }

    #[test]
    fn a_steady_drift_falls_on_all_alike() {
        // Run t costs t: over an even number of rounds, all pay the same.
        let mut paid = [0; 4];
        for round in 0..6 {
            for (place, contender) in order(4, round).into_iter().enumerate() {
                paid[contender] += round as usize * 4 + place;
            }
        }
        assert_eq!(paid, [paid[0]; 4]);
    }

    #[test]
    fn both_begin_equally_often_and_the_seed_decides() {
        let begins = by_chance(100, 7);
        assert_eq!(begins.iter().filter(|second| **second).count(), 50);
        assert!(begins.chunks(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(begins, by_chance(100, 7));
        assert_ne!(begins, by_chance(100, 8));
        assert_eq!(by_chance(3, 1).len(), 3);
    }
}
