//! Writes a workload as a file: the inverse of [`iosonde_model::spec::catalogue::parse_workload`].
//!
//! Default values are omitted. The writer does not list fields by name, so it cannot miss a new
//! one.

use serde::Serialize;
use serde_json::{Map, Value};

use super::clean::clean;
use iosonde_model::spec::{Role, Workload, catalogue};

/// Most columns of a list on one line.
const COLUMNS: usize = 80;

/// The file of a workload; `head` and one remark per role become comments.
///
/// # Errors
/// If a number does not fit into TOML's integers, which have 63 bits; in words.
pub fn workload_toml(
    workload: &Workload,
    head: &[String],
    of_roles: &[String],
) -> Result<String, String> {
    let mut out = String::new();
    for line in head {
        out.push_str(&comment(line));
    }
    out.push('\n');
    for (key, value) in in_order(&fields(workload)?) {
        if key != "role" {
            out.push_str(&entry(key, value)?);
        }
    }
    for (index, role) in workload.roles.iter().enumerate() {
        out.push('\n');
        out.push_str(&of_roles.get(index).map(|line| comment(line)).unwrap_or_default());
        out.push_str("[[role]]\n");
        let usual = fields(&usual(role)?)?;
        for (key, value) in in_order(&fields(role)?) {
            let is_needed = matches!(key.as_str(), "name" | "rw");
            if is_needed || usual.get(key) != Some(value) {
                out.push_str(&entry(key, value)?);
            }
        }
    }
    Ok(out)
}

/// A comment line; escapes control characters of foreign names, which could end the line.
fn comment(line: &str) -> String {
    format!("# {}", clean(line)).trim_end().to_string() + "\n"
}

/// A role of the same direction with default values only.
fn usual(role: &Role) -> Result<Role, String> {
    let text = format!(
        "name = 'w'\ntitle = 'w'\npattern = 'w'\nblock-size = 1\nread-percent = 0\n\
         [[role]]\nname = 'r'\nrw = '{}'\n",
        role.rw.word()
    );
    let mut roles = catalogue::parse_workload(&text).map_err(|error| error.to_string())?.roles;
    roles.pop().ok_or_else(|| "a workload without a role".to_string())
}

fn fields(of: &impl Serialize) -> Result<Map<String, Value>, String> {
    match serde_json::to_value(of).map_err(|error| error.to_string())? {
        Value::Object(fields) => Ok(fields),
        other => Err(format!("{other} has no fields")),
    }
}

/// Sorts fields: the most important ones first, the others by name.
fn in_order(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    const FIRST: [&str; 6] = ["name", "title", "rw", "pattern", "models", "threads"];
    let place = |key: &str| FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len());
    let mut all: Vec<(&String, &Value)> = fields.iter().collect();
    all.sort_by_key(|(key, _)| place(key));
    all
}

/// `key = value`; empty for null.
fn entry(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::Null => Ok(String::new()),
        value => Ok(format!("{key} = {}\n", inline(value)?)),
    }
}

/// A value on one line. A list that is too long for one takes several, which TOML allows within
/// brackets.
fn inline(value: &Value) -> Result<String, String> {
    match value {
        Value::Null => Err("a list with a hole".into()),
        Value::Bool(value) => Ok(value.to_string()),
        // A JSON string is a TOML basic string, except for one character that only TOML requires to
        // be escaped.
        Value::String(text) => {
            Ok(Value::from(text.as_str()).to_string().replace('\x7f', "\\u007f"))
        }
        Value::Number(number) => match (number.as_i64(), number.is_f64()) {
            (Some(whole), _) => Ok(whole.to_string()),
            (None, true) => Ok(format!("{:?}", number.as_f64().unwrap_or_default())),
            (None, false) => Err(format!("{number} has more than the 63 bits of TOML")),
        },
        Value::Array(items) => {
            let items = items.iter().map(inline).collect::<Result<Vec<_>, _>>()?;
            let line = items.join(", ");
            if line.len() <= COLUMNS {
                return Ok(format!("[{line}]"));
            }
            let lines: String = wrapped(&items).iter().map(|line| format!("  {line}\n")).collect();
            Ok(format!("[\n{lines}]"))
        }
        Value::Object(fields) => {
            let mut items = Vec::new();
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                items.push(format!("{key} = {}", inline(value)?));
            }
            Ok(if items.is_empty() { "{}".into() } else { format!("{{ {} }}", items.join(", ")) })
        }
    }
}

/// Items with their commas, in lines filled as far as possible.
fn wrapped(items: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.len() + item.len() + 2 <= COLUMNS => {
                line.push_str(&format!(" {item},"));
            }
            _ => lines.push(format!("{item},")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_model::plan::chance::Chance;
    use iosonde_model::spec::{
        Access, Arrivals, Bursts, Commit, Data, Draw, EachWrite, Flow, Limits, NumaMode, Pace,
        Phase, Placement, Priorities, Priority, Rate, Reap, Region, Rw, Sequence, Sizes, Start,
        Sync, SyncCall, Think, Threads, Wait, Zone,
    };

    /// A random element.
    fn pick<T: Clone>(chance: &mut Chance, of: &[T]) -> T {
        of[chance.below(of.len() as u64) as usize].clone()
    }

    fn number(chance: &mut Chance) -> u64 {
        let bits = chance.below(62);
        chance.bits() >> (63 - bits).max(1)
    }

    fn name(chance: &mut Chance) -> String {
        let letters: Vec<char> = "ab-Z \"'\\#=[]{}\n\t\r\u{7f}\u{0}ü漢\u{1f600}".chars().collect();
        (0..chance.below(12)).map(|_| pick(chance, &letters)).collect()
    }

    fn draw(chance: &mut Chance) -> Draw {
        let split = (0..chance.below(40)).map(|_| (number(chance), chance.unit() * 50.0)).collect();
        let (low, high, step) = (number(chance), number(chance), number(chance));
        let fixed = number(chance);
        pick(
            chance,
            &[Draw::Block, Draw::Fixed(fixed), Draw::Split(split), Draw::Range { low, high, step }],
        )
    }

    fn pace(chance: &mut Chance) -> Pace {
        let table = |chance: &mut Chance| -> Vec<(u64, f64)> {
            (0..chance.below(60)).map(|_| (number(chance), chance.unit())).collect()
        };
        let (requests, within, between) = (table(chance), table(chance), table(chance));
        let arrivals = pick(
            chance,
            &[
                Arrivals::Constant,
                Arrivals::Poisson,
                Arrivals::Drawn(within.clone()),
                Arrivals::Bursts(Bursts { requests, within, between }),
            ],
        );
        let per_s = 10f64.powf(chance.unit() * 20.0 - 4.0);
        let rate = pick(chance, &[Rate::Ops(per_s), Rate::Bytes(per_s)]);
        let times = (0..chance.below(30)).map(|_| number(chance)).collect();
        pick(chance, &[Pace::Closed, Pace::Rate { rate, arrivals }, Pace::Recorded(times)])
    }

    fn access(chance: &mut Chance) -> Access {
        let zone = |chance: &mut Chance| Zone {
            access_percent: chance.unit() * 100.0,
            size_percent: chance.unit() * 100.0,
        };
        let zones = (0..chance.below(9)).map(|_| zone(chance)).collect();
        let share = chance.unit();
        let laws = [
            Access::Permutation,
            Access::Uniform,
            Access::SinglePass(share * 100.0),
            Access::RandomMap,
            Access::Zipf(share),
            Access::Pareto(share),
            Access::Normal(share),
            Access::Zoned(zones),
            Access::Sequence(Sequence { blocks: vec![2, 0, 1], advances: true }),
        ];
        pick(chance, &laws)
    }

    /// A role with random values in all fields.
    fn role(chance: &mut Chance) -> Role {
        let some = |chance: &mut Chance| (chance.below(2) == 0).then(|| number(chance));
        let flag = |chance: &mut Chance| chance.below(2) == 0;
        let rw = pick(chance, &Rw::WORDS).1;
        let count = chance.bits() as u32;
        let waits = Commit::WaitsFor { role: name(chance), percent: chance.unit() * 100.0 };
        let phase = |chance: &mut Chance| Phase {
            ns: number(chance),
            rate_percent: chance.unit() * 300.0,
            read_percent: (chance.below(2) == 0).then_some(7),
            sync_percent: pick(chance, &[100.0, 0.0, 16.5]),
            commit_percent: pick(chance, &[100.0, 0.0, 16.5]),
        };
        Role {
            name: name(chance),
            threads: pick(
                chance,
                &[Threads::PerCpu, Threads::Rest, Threads::Count(count), Threads::Percent(3)],
            ),
            block_size: some(chance),
            read_percent: (chance.below(2) == 0).then_some(30),
            iodepth: (chance.below(2) == 0).then_some(count),
            region: pick(chance, &[Region::Shared, Region::Partitioned, Region::Staggered]),
            start: pick(chance, &[Start::Zero, Start::Random, Start::Last]),
            access: access(chance),
            random_percent: (chance.below(2) == 0).then(|| chance.unit() * 100.0),
            targets: (0..chance.below(3)).map(|target| target as u16).collect(),
            offset: some(chance),
            size: some(chance),
            offset_increment: some(chance),
            sizes: Sizes { read: draw(chance), write: draw(chance), trim: draw(chance) },
            block_align: some(chance),
            stride: some(chance).map(|stride| -(stride as i64)),
            pace: pace(chance),
            think: Think {
                ns: number(chance),
                every_ops: number(chance),
                spin_ns: 0,
                every_ns: number(chance),
            },
            phases: (0..chance.below(5)).map(|_| phase(chance)).collect(),
            sync: Sync {
                every_writes: number(chance),
                extra_syncs: number(chance),
                followed: number(chance),
                in_flight: number(chance),
                by_call: flag(chance),
                call: pick(chance, &[SyncCall::Fsync, SyncCall::Fdatasync]),
                barrier: flag(chance),
                each_write: pick(chance, &[EachWrite::Accepted, EachWrite::Dsync, EachWrite::Sync]),
                atomic: flag(chance),
            },
            data: Data {
                compress_percent: 7,
                dedupe_percent: 0,
                set_percent: 5,
                set_shared: flag(chance),
                zeros: flag(chance),
                constant: flag(chance),
                pattern: vec![1, 255],
                checked: flag(chance),
            },
            batch: (chance.below(2) == 0).then_some(count),
            reap: Reap {
                complete_min: count,
                complete_max: 3,
                refill_at: 2,
                wait: pick(chance, &[Wait::Event, Wait::Poll, Wait::Hybrid]),
                slat: flag(chance),
                counts: flag(chance),
                times: flag(chance),
            },
            place: Placement {
                cpus: (0..chance.below(3)).map(|cpu| cpu as u32).collect(),
                numa_node: (chance.below(2) == 0).then_some(1),
                more_numa_nodes: vec![2, 4],
                numa_mode: NumaMode::Interleave,
                huge_pages: flag(chance),
                nice: -3,
                io_priority: (2, 7),
            },
            priorities: Priorities {
                read: vec![Priority {
                    percent: 20,
                    bytes: number(chance),
                    class: 1,
                    level: 7,
                    hint: 2,
                }],
                write: Vec::new(),
            },
            limits: Limits {
                least_read: (chance.below(2) == 0).then_some(Rate::Ops(9.0)),
                least_over_ns: number(chance),
                ignored_write: vec![28],
                ..Limits::default()
            },
            flow: (chance.below(2) == 0).then_some(Flow { id: 3, weight: 2, sleep_ns: 5 }),
            commit: pick(chance, &[None, Some(Commit::Writes(2.5)), Some(waits.clone())]),
            ..Role::new("", rw)
        }
    }

    #[test]
    fn every_workload_comes_back_exactly() {
        let mut chance = Chance::new(5);
        for turn in 0..500 {
            let workload = Workload {
                name: name(&mut chance),
                title: name(&mut chance),
                pattern: name(&mut chance),
                models: name(&mut chance),
                block_size: number(&mut chance),
                read_percent: 70,
                roles: (0..1 + chance.below(3)).map(|_| role(&mut chance)).collect(),
            };
            let head = [name(&mut chance), name(&mut chance)];
            let text = workload_toml(&workload, &head, &head).unwrap();
            let back = catalogue::parse_workload(&text);
            assert_eq!(back.as_ref(), Ok(&workload), "turn {turn}:\n{text}");
        }
    }

    #[test]
    fn the_catalogue_comes_back_and_says_no_more_than_it_must() {
        for text in catalogue::WORKLOADS {
            let workload = catalogue::parse_workload(text).unwrap();
            let formatted = workload_toml(&workload, &[], &[]).unwrap();
            assert_eq!(catalogue::parse_workload(&formatted).unwrap(), workload);
            assert!(formatted.lines().count() <= text.lines().count() + 3, "{formatted}");
        }
    }

    #[test]
    fn a_number_without_a_place_is_named() {
        let mut workload = catalogue::workload("database").unwrap();
        workload.roles[0].size = Some(u64::MAX);
        let error = workload_toml(&workload, &[], &[]).unwrap_err();
        assert!(error.contains("63 bits"), "{error}");
    }
}
