//! The heaviest stacks: where requests begin and where threads wait.

use super::cells::percent;
use crate::clean::clean;
use crate::wrap::Text;
use iosonde_model::record::ProfileRun;
use iosonde_model::record::stacks::{ENDED, StackKind, StackRun};
use iosonde_model::units::{bytes, count, duration};

/// Most stacks listed of each kind.
const ROWS: usize = 3;
/// Most functions named of each side of a stack.
const FUNCTIONS: usize = 3;
/// Innermost functions common to all kernel stacks, with those that they call; they are left out.
const ENDS: [&str; 6] =
    ["__schedule", "schedule", "io_schedule", "blk_", "__submit_bio", "submit_bio"];
/// Share of stacks with a single function from which the program is assumed to have no frame
/// pointers.
const MANY: f64 = 0.5;

/// The heaviest stacks of each kind by their innermost functions, and a note on short stacks.
pub(super) fn stacks(out: &mut Text, run: &ProfileRun) {
    if run.stacks.is_empty() {
        return;
    }
    out.push_str("\nStacks (flame graphs: stacks-*.svg):\n");
    for kind in StackKind::ALL {
        let of_kind: Vec<&StackRun> =
            run.stacks.iter().filter(|stack| stack.kind == kind).collect();
        let all: u64 = of_kind.iter().map(|stack| stack.amount).sum();
        let seen: u64 = of_kind.iter().map(|stack| stack.count).sum();
        if all == 0 {
            continue;
        }
        let (what, sum) = match kind {
            StackKind::Request => ("request", bytes::rough(all)),
            StackKind::Wait => ("wait", duration::span(all)),
        };
        let stacks = count::of(of_kind.len() as u64, "stack");
        let head = format!("{} ({sum}) at {stacks}", count::of(seen, what));
        out.hanging("  ", &head);
        for stack in of_kind.iter().take(ROWS) {
            let share = percent(stack.amount as f64 / all as f64);
            out.hanging("    - ", &format!("{share} {}", named(stack)));
        }
    }
    if let Some(share) = without_frames(&run.stacks).filter(|share| *share >= MANY) {
        let words = format!(
            "{} of the programs' stacks have a single function: they were built without frame \
             pointers, by which the kernel follows a stack",
            percent(share)
        );
        out.hanging("  ", &words);
    }
}

/// The innermost functions of each side: `app: main < run < write | submit_bio < ext4_write`.
fn named(stack: &StackRun) -> String {
    let innermost = |frames: &[String]| {
        let frames = frames.iter().rev();
        let frames = frames.skip_while(|at| ENDS.iter().any(|end| at.starts_with(end)));
        frames.take(FUNCTIONS).map(|at| clean(at)).collect::<Vec<String>>().join(" < ")
    };
    let sides = [innermost(&stack.kernel), innermost(&stack.user)];
    let sides: Vec<String> = sides.into_iter().filter(|side| !side.is_empty()).collect();
    match sides.is_empty() {
        true => clean(&stack.thread),
        false => format!("{}: {}", clean(&stack.thread), sides.join(" | ")),
    }
}

/// Share of user stacks with only one function, weighted by their counts; stacks whose functions
/// could not be read are not counted.
fn without_frames(stacks: &[StackRun]) -> Option<f64> {
    let of = |is_meant: fn(&StackRun) -> bool| -> u64 {
        stacks.iter().filter(|stack| is_meant(stack)).map(|stack| stack.count).sum()
    };
    let all = of(|stack| stack.user.iter().any(|at| at != ENDED));
    let single = of(|stack| stack.user.len() == 1 && stack.user[0] != ENDED);
    (all > 0).then(|| single as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(user: &[&str], count: u64) -> StackRun {
        StackRun {
            kind: StackKind::Request,
            thread: "app".into(),
            user: user.iter().map(|&name| name.to_owned()).collect(),
            kernel: [
                "vfs_write",
                "ext4_file_write_iter",
                "iomap_dio_rw",
                "submit_bio",
                "blk_mq_submit_bio",
            ]
            .map(str::to_owned)
            .to_vec(),
            count,
            amount: count * 4096,
        }
    }

    #[test]
    fn the_innermost_functions_stand_first_and_missing_frames_are_said() {
        let mut run = ProfileRun::default();
        let text = |run: &ProfileRun| {
            let mut out = Text::new(100, 100);
            stacks(&mut out, run);
            out.into_string()
        };
        assert_eq!(text(&run), "");
        run.stacks = vec![stack(&["main", "flush", "write"], 30), stack(&["write"], 10)];
        let shown = text(&run);
        assert!(shown.contains("40 requests (160 KiB) at 2 stacks"), "{shown}");
        let line =
            "- 75% app: iomap_dio_rw < ext4_file_write_iter < vfs_write | write < flush < main";
        assert!(shown.contains(line), "{shown}");
        assert!(!shown.contains("frame pointers"), "{shown}");
        run.stacks[1].count = 90;
        assert!(text(&run).contains("75% of the programs' stacks"), "{}", text(&run));
        run.stacks[1].user = vec![ENDED.to_owned()];
        assert!(!text(&run).contains("frame pointers"), "{}", text(&run));
    }
}
