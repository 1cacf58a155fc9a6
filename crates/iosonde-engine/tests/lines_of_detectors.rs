//! Every detector has its lines in the tables of `docs/detectors.md`, and in a run of each line of
//! the second table is found what must be.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "the tables are printed by the example")]
#[path = "../examples/detectors.rs"]
mod detectors;

#[test]
fn every_detector_has_a_line_in_which_it_speaks_and_a_look_alike() {
    assert_eq!(detectors::without_line(), Vec::<String>::new());
}

#[test]
fn what_must_be_found_is_found_and_no_look_alike_is_taken_for_it() {
    assert_eq!(detectors::lacking(1).unwrap(), Vec::<&str>::new());
}
