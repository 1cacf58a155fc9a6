//! Flame graphs of where requests begin and where threads wait (Gregg, "The flame graph",
//! Communications of the ACM 59(6), 2016), and the same stacks as text for other tools.

use inferno::flamegraph::{Options, TextTruncateDirection, color, from_lines};

use super::Picture;
use crate::chart::ChartError;
use crate::clean::clean;
use iosonde_model::record::ProfileRun;
use iosonde_model::record::stacks::{StackKind, StackRun};

/// Graph and folded lines of each kind of stack in the profile.
pub(super) fn pictures(run: &ProfileRun) -> Result<Vec<Picture>, ChartError> {
    let mut pictures = Vec::new();
    for kind in StackKind::ALL {
        let lines: Vec<String> =
            run.stacks.iter().filter(|stack| stack.kind == kind).filter_map(folded).collect();
        if lines.is_empty() {
            continue;
        }
        let (name, title, unit) = match kind {
            StackKind::Request => ("stacks-requests", "Where requests begin", "KiB"),
            StackKind::Wait => ("stacks-waits", "Where threads wait", "us"),
        };
        let graph = graph(&lines, title, super::pool::subject(run), unit)?;
        pictures.push((format!("{name}.svg"), graph));
        pictures.push((format!("{name}.folded"), lines.join("\n") + "\n"));
    }
    Ok(pictures)
}

/// `thread;outermost;…;innermost_[k] amount`, the input of flame graphs, in KiB and microseconds;
/// `None` if the amount is 0.
fn folded(stack: &StackRun) -> Option<String> {
    let per_unit = match stack.kind {
        StackKind::Request => 1 << 10,
        StackKind::Wait => 1_000,
    };
    let amount = stack.amount / per_unit;
    let word = |frame: &String| clean(frame).replace(';', ":");
    let user = stack.user.iter().map(word);
    let kernel = stack.kernel.iter().map(|frame| word(frame) + "_[k]");
    let frames: Vec<String> = [word(&stack.thread)].into_iter().chain(user).chain(kernel).collect();
    (amount > 0).then(|| format!("{} {amount}", frames.join(";")))
}

fn graph(lines: &[String], title: &str, subject: String, unit: &str) -> Result<String, ChartError> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subject);
    options.count_name = unit.to_owned();
    options.colors = color::Palette::Multi(color::MultiPalette::Java);
    options.text_truncate_direction = TextTruncateDirection::Right;
    // The same stacks must give the same picture.
    options.deterministic = true;
    let mut svg = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|error| ChartError::Stacks(error.to_string()))?;
    String::from_utf8(svg).map_err(|error| ChartError::Stacks(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn stack(kind: StackKind, amount: u64) -> StackRun {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        let (user, kernel) = (words("main write;all"), words("do_syscall_64 submit_bio"));
        StackRun { kind, thread: "app".into(), user, kernel, count: 3, amount }
    }

    #[test]
    fn a_stack_is_a_line_from_the_outside_to_the_inside() {
        let mut run = ProfileRun::default();
        assert_eq!(pictures(&run).unwrap(), []);
        run.stacks = vec![stack(StackKind::Request, 8192), stack(StackKind::Wait, 999)];
        let made = pictures(&run).unwrap();
        // The wait is shorter than a microsecond and so left out.
        let names: Vec<&str> = made.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["stacks-requests.svg", "stacks-requests.folded"]);
        assert_eq!(made[1].1, "app;main;write:all;do_syscall_64_[k];submit_bio_[k] 8\n");
        for word in ["write:all", "submit_bio", "Where requests begin"] {
            assert!(made[0].1.contains(word), "{word}: {}", made[0].1);
        }
    }
}
