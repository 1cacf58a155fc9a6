//! fio's JSON and JSON+ documents of version 3: one job or many, groups, and a client's report on
//! its servers.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Foreign, ForeignDirection, ForeignJob, ForeignLatency, ImportError};
use super::{MAX_BYTES, MAX_DEPTH};
use crate::plan::IoKind;

/// Name of the entry in which a client sums the results of its servers.
const SUM: &str = "All clients";
/// Most entries of a document, jobs and servers together.
const MAX_JOBS: usize = 100_000;
/// Largest count: up to here every whole number is exact as an `f64`.
const MAX_COUNT: u64 = 1 << 53;
/// Most samples of one histogram, so that those of all jobs can be added.
const MAX_SAMPLES: u64 = 1 << 46;

/// Reads a document. Messages that fio prints before it are noted.
///
/// # Errors
/// If it is too large, not JSON, not of fio, or has an impossible number.
pub fn fio_json(text: &str) -> Result<Foreign, ImportError> {
    ImportError::unless_short(format_args!("the file"), text, MAX_BYTES)?;
    let begin = beginning(text).ok_or_else(|| {
        let first: String = text.lines().next().unwrap_or_default().chars().take(60).collect();
        let found = if first.is_empty() { "nothing".into() } else { format!("`{first}`") };
        ImportError::unexpected("the file", found, "fio's JSON, which begins with a line `{`")
    })?;
    let (before, document) = text.split_at(begin);
    let mut notes = Vec::new();
    if let Some(first) = before.lines().find(|line| !line.trim().is_empty()) {
        let first: String = first.chars().take(200).collect();
        let lines = before.lines().filter(|line| !line.trim().is_empty()).count();
        let noun = if lines == 1 { "line" } else { "lines" };
        notes.push(format!("{lines} {noun} before the document, the first: {first}"));
    }
    let value = last_document(document, before.lines().count(), &mut notes)?;
    let read = Read { value: &value, place: String::new() };
    let mut foreign = read.document()?;
    foreign.notes.splice(0..0, notes);
    Ok(foreign)
}

/// Whether a text may be a document of fio.
pub fn is_fio_json(text: &str) -> bool {
    beginning(text).is_some_and(|at| {
        let mut end = (at + 4096).min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text[at..end].contains("\"fio version\"")
    })
}

/// Where the document begins: at the first line that begins with a brace.
fn beginning(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start_matches([' ', '\t', '\u{feff}']).starts_with('{') {
            return Some(at + line.find('{').unwrap_or(0));
        }
        at += line.len();
    }
    None
}

/// Reads the last whole document: with a status interval, fio writes several in a row.
fn last_document(
    text: &str,
    lines_before: usize,
    notes: &mut Vec<String>,
) -> Result<Value, ImportError> {
    if let Some(depth) = too_deep(text) {
        return Err(ImportError::TooLarge {
            place: "the document".into(),
            found: format!("{depth} levels of nesting"),
            most: format!("{MAX_DEPTH}"),
        });
    }
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut last = None;
    let mut count = 0u32;
    let mut end = 0;
    while let Some(next) = documents.next() {
        match next {
            Ok(value) if value.is_object() => {
                (last, end) = (Some(value), documents.byte_offset());
                count += 1;
            }
            // Any other output of fio may follow the document.
            Ok(_) | Err(_) if last.is_some() && !text[end..].trim_start().starts_with('{') => break,
            Ok(other) => {
                let found = format!("{other}").chars().take(60).collect::<String>();
                return Err(ImportError::unexpected("the document", found, "an object"));
            }
            Err(error) => {
                let line = lines_before + error.line();
                let source = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
                let source: String = source.trim().chars().take(60).collect();
                let found = match source.is_empty() {
                    true => error.to_string(),
                    false => format!("`{source}` ({error})"),
                };
                let expected = "JSON as fio writes it; a document that was cut off, or has `nan` \
                                in place of a number, cannot be read";
                return Err(ImportError::unexpected(format!("line {line}"), found, expected));
            }
        }
    }
    if !text[end..].trim().is_empty() {
        notes.push("the document is followed by other text, which is not read".into());
    }
    if count > 1 {
        notes.push(format!("{count} documents; the last one is used"));
    }
    last.ok_or_else(|| ImportError::unexpected("the document", "nothing", "an object"))
}

/// The depth of nesting, if it exceeds the limit.
fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Some(depth);
        }
    }
    None
}

/// A value and its place in the document.
struct Read<'a> {
    value: &'a Value,
    place: String,
}

impl<'a> Read<'a> {
    fn field(&self, name: &str) -> Option<Read<'a>> {
        let value = self.value.get(name)?;
        let dot = if self.place.is_empty() { "" } else { "." };
        Some(Read { value, place: format!("{}{dot}{name}", self.place) })
    }

    fn unexpected(&self, expected: &str) -> ImportError {
        self.wrong(self.value.to_string().chars().take(60).collect(), expected)
    }

    fn wrong(&self, found: String, expected: &str) -> ImportError {
        ImportError::unexpected(self.place.clone(), found, expected)
    }

    fn object(&self) -> Result<&'a Map<String, Value>, ImportError> {
        self.value.as_object().ok_or_else(|| self.unexpected("an object"))
    }

    fn entries(&self) -> Result<Vec<Read<'a>>, ImportError> {
        let values = self.value.as_array().ok_or_else(|| self.unexpected("a list"))?;
        let place = |index| format!("{}[{index}]", self.place);
        Ok((0..).zip(values).map(|(at, value)| Read { value, place: place(at) }).collect())
    }

    fn text(&self) -> Result<&'a str, ImportError> {
        self.value.as_str().ok_or_else(|| self.unexpected("a string"))
    }

    /// Reads a count; a number with a fraction of zero is one too.
    fn count(&self) -> Result<u64, ImportError> {
        let number = self.value.as_f64().filter(|number| number.fract() == 0.0);
        let count = number.filter(|number| (0.0..=MAX_COUNT as f64).contains(number));
        let count = self.value.as_u64().or(count.map(|number| number as u64));
        let count = count.filter(|count| *count <= MAX_COUNT);
        count.ok_or_else(|| self.unexpected("a whole number from 0 to 2^53"))
    }

    fn number(&self) -> Result<f64, ImportError> {
        let number = self.value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| self.unexpected("a number of at least 0"))
    }

    fn count_at(&self, name: &str) -> Result<u64, ImportError> {
        self.field(name).map_or(Ok(0), |field| field.count())
    }

    fn number_at(&self, name: &str) -> Result<f64, ImportError> {
        self.field(name).map_or(Ok(0.0), |field| field.number())
    }

    fn document(&self) -> Result<Foreign, ImportError> {
        let Some(program) = self.field("fio version") else {
            let expected = "JSON as fio writes it with --output-format=json or json+";
            let found = "no field `fio version`";
            return Err(ImportError::unexpected("the document", found, expected));
        };
        let program = program.text()?.to_owned();
        let major = program.trim_start_matches("fio-").split('.').next();
        if major.and_then(|major| major.parse().ok()).is_some_and(|major: u64| major < 3) {
            let expected = "fio-3 or newer: before that latencies were in µs";
            return Err(ImportError::unexpected("fio version", program, expected));
        }
        let written = match (self.field("timestamp_ms"), self.field("timestamp")) {
            (Some(ms), _) => ms.count()?.checked_mul(1_000_000),
            (None, Some(seconds)) => seconds.count()?.checked_mul(1_000_000_000),
            (None, None) => None,
        };
        let shared = self.field("global options").map_or(Ok(BTreeMap::new()), |o| o.options())?;
        let Some(list) = self.field("jobs").or_else(|| self.field("client_stats")) else {
            let found = "neither `jobs` nor `client_stats`";
            let expected = "one of them, with the results";
            return Err(ImportError::unexpected("the document", found, expected));
        };
        let entries = list.entries()?;
        if entries.is_empty() || entries.len() > MAX_JOBS {
            let found = format!("{} jobs", entries.len());
            let expected = format!("1 to {MAX_JOBS}");
            return Err(ImportError::unexpected(list.place, found, expected));
        }
        let jobs: Result<Vec<_>, _> = entries.iter().map(|entry| entry.job(&shared)).collect();
        let devices = self.field("disk_util").map_or(Ok(Vec::new()), |list| list.devices())?;
        let written_unix_ns = written.filter(|ns| *ns > 0);
        Ok(Foreign { program, written_unix_ns, jobs: jobs?, devices, notes: Vec::new() })
    }

    fn options(&self) -> Result<BTreeMap<String, String>, ImportError> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Ok(self.object()?.iter().map(|(name, value)| (name.clone(), text(value))).collect())
    }

    fn devices(&self) -> Result<Vec<(String, f64)>, ImportError> {
        let device = |entry: &Read<'a>| match (entry.field("name"), entry.field("util")) {
            (Some(name), Some(util)) => Ok(Some((name.text()?.to_owned(), util.number()?))),
            _ => Ok(None),
        };
        self.entries()?.iter().filter_map(|entry| device(entry).transpose()).collect()
    }

    fn job(&self, shared: &BTreeMap<String, String>) -> Result<ForeignJob, ImportError> {
        self.object()?;
        let name = self.field("jobname").map_or(Ok(""), |name| name.text())?.to_owned();
        let mut options = shared.clone();
        if let Some(own) = self.field("job options") {
            options.extend(own.options()?);
        }
        let host = self.field("hostname").map(|host| host.text()).transpose()?;
        let host = host.filter(|host| !host.is_empty()).map(str::to_owned);
        let error = match self.field("error") {
            // Negative error numbers are errors too.
            Some(error) => error.value.as_i64().map(i64::unsigned_abs),
            None => Some(0),
        };
        let runtime = self.field("job_runtime").map_or(Ok(0), |ms| ms.milliseconds())?;
        let cpu = match (self.field("usr_cpu"), self.field("sys_cpu")) {
            (Some(user), Some(system)) => Some((user.number()?, system.number()?)),
            _ => None,
        };
        let levels = self.field("iodepth_level").map_or(Ok(Vec::new()), |all| all.levels())?;
        let mut directions = Vec::new();
        for way in IoKind::ALL {
            let Some(direction) = self.field(way.word()) else { continue };
            let direction = direction.direction(way)?;
            directions.extend((direction.ops > 0).then_some(direction));
        }
        let longest = directions.iter().map(|each| each.runtime_ns).max().unwrap_or(0);
        Ok(ForeignJob {
            is_sum: name == SUM,
            name,
            host,
            group: self.count_at("groupid")?,
            options,
            error: error.unwrap_or(1),
            runtime_ns: if runtime > 0 { runtime } else { longest },
            cpu_percent: cpu,
            depth_levels: levels,
            directions,
        })
    }

    fn milliseconds(&self) -> Result<u64, ImportError> {
        let ns = self.count()?.checked_mul(1_000_000);
        ns.ok_or_else(|| self.unexpected("a time in ms of less than 584 years"))
    }

    /// Depths in ascending order; fio's last one is `>=64`.
    fn levels(&self) -> Result<Vec<(String, f64)>, ImportError> {
        let mut levels = Vec::new();
        for name in self.object()?.keys() {
            levels.push((name.clone(), self.number_at(name)?));
        }
        let depth = |name: &str| name.trim_start_matches(">=").parse::<u64>().unwrap_or(u64::MAX);
        levels.sort_by_key(|(name, _)| depth(name));
        Ok(levels)
    }

    fn direction(&self, way: IoKind) -> Result<ForeignDirection, ImportError> {
        self.object()?;
        let ops = self.count_at("total_ios")?;
        let bytes = self.count_at("io_bytes")?;
        let bytes_per_s = match self.field("bw_bytes") {
            Some(rate) => rate.number()?,
            None => self.number_at("bw")? * 1024.0,
        };
        let latency = |name| self.field(name).map(|field| field.latency()).transpose();
        let formatted =
            |latency: Option<ForeignLatency>| latency.filter(|latency| latency.count > 0);
        Ok(ForeignDirection {
            way,
            ops,
            bytes,
            iops: self.number_at("iops")?,
            bytes_per_s,
            runtime_ns: self.field("runtime").map_or(Ok(0), |ms| ms.milliseconds())?,
            short_ops: self.count_at("short_ios")?,
            dropped_ops: self.count_at("drop_ios")?,
            slat: formatted(latency("slat_ns")?),
            clat: formatted(latency("clat_ns")?),
            lat: formatted(latency("lat_ns")?),
        })
    }

    fn latency(&self) -> Result<ForeignLatency, ImportError> {
        self.object()?;
        let count = self.count_at("N")?;
        if count == 0 {
            return Ok(ForeignLatency::default());
        }
        let latency = ForeignLatency {
            count,
            min_ns: self.count_at("min")?,
            max_ns: self.count_at("max")?,
            mean_ns: self.number_at("mean")?,
            std_dev_ns: self.number_at("stddev")?,
            percentiles: self.field("percentile").map_or(Ok(Vec::new()), |p| p.percentiles())?,
            bins: self.field("bins").map_or(Ok(Vec::new()), |bins| bins.bins())?,
        };
        if latency.min_ns > latency.max_ns {
            let found =
                format!("a minimum of {} and a maximum of {}", latency.min_ns, latency.max_ns);
            return Err(self.wrong(found, "a minimum that is no more than the maximum"));
        }
        Ok(latency)
    }

    fn percentiles(&self) -> Result<Vec<(f64, u64)>, ImportError> {
        let mut all = Vec::new();
        for name in self.object()?.keys() {
            let share = name.parse().ok().filter(|share| (0.0..=100.0).contains(share));
            let expected = "percentages from 0 to 100 as names";
            let share = share.ok_or_else(|| self.wrong(format!("`{name}`"), expected))?;
            all.push((share, self.count_at(name)?));
        }
        all.sort_by(|one: &(f64, u64), other| one.0.total_cmp(&other.0));
        if let Some(pair) = all.windows(2).find(|pair| pair[0].1 > pair[1].1) {
            let ((low, low_ns), (high, high_ns)) = (pair[0], pair[1]);
            let found = format!("p{low} = {low_ns} and p{high} = {high_ns}");
            return Err(self.wrong(found, "percentiles that ascend"));
        }
        Ok(all)
    }

    fn bins(&self) -> Result<Vec<(u64, u64)>, ImportError> {
        let mut bins = Vec::new();
        let mut sum = 0u64;
        for name in self.object()?.keys() {
            let ns = name.parse().ok().filter(|ns| *ns <= MAX_COUNT);
            let expected = "times in ns from 0 to 2^53 as names";
            let ns = ns.ok_or_else(|| self.wrong(format!("`{name}`"), expected))?;
            let count = self.count_at(name)?;
            sum = sum.saturating_add(count);
            bins.push((ns, count));
        }
        if sum > MAX_SAMPLES {
            return Err(self.wrong(format!("{sum}"), &format!("at most {MAX_SAMPLES} samples")));
        }
        bins.retain(|(_, count)| *count > 0);
        bins.sort_unstable();
        Ok(bins)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::mutations::mutations;
    use super::*;

    const OLD: &str = include_str!("../../../../../tests/fixtures/fio-results/two-3.33.json");
    const NEW: &str = include_str!("../../../../../tests/fixtures/fio-results/two-3.42.json");
    const GROUP: &str = include_str!("../../../../../tests/fixtures/fio-results/group-3.33.json");
    const CLIENT: &str = include_str!("../../../../../tests/fixtures/fio-results/client-3.33.json");

    #[test]
    fn documents_of_both_versions_are_read() {
        let old = fio_json(OLD).unwrap();
        assert_eq!((old.program.as_str(), old.notes.len()), ("fio-3.33", 0));
        assert_eq!(old.written_unix_ns, Some(1_795_303_735_862_000_000));
        let names: Vec<&str> = old.jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["reader", "writer", "writer"]);
        let reader = &old.jobs[0];
        assert_eq!(reader.option(&["blocksize", "bs"]), Some("4k"));
        assert_eq!(reader.option(&["iodepth"]), Some("8"));
        assert_eq!(reader.directions.len(), 1);
        let read = reader.direction(IoKind::Read).unwrap();
        assert_eq!((read.ops, read.bytes, read.runtime_ns), (80_606, 330_162_176, 2_001_000_000));
        let (name, spread) = read.spread().unwrap();
        assert_eq!((name, spread.percentile(99.0)), ("clat", Some(501_760)));
        assert!(spread.histogram().is_none());
        let (name, whole) = read.whole().unwrap();
        assert_eq!((name, whole.count, whole.min_ns), ("lat", 80_606, 29_524));
        assert_eq!(reader.depth_levels.first().unwrap().0, "1");
        assert_eq!(reader.depth_levels.last().unwrap().0, ">=64");

        let new = fio_json(NEW).unwrap();
        assert_eq!(new.program, "fio-3.42-135-gf5344");
        let read = new.jobs[0].direction(IoKind::Read).unwrap();
        let (_, spread) = read.spread().unwrap();
        let histogram = spread.histogram().unwrap();
        assert_eq!(histogram.count(), spread.count);
        // fio's own percentile and that of its bins are of the same samples.
        let own = spread.percentile(99.0).unwrap() as f64;
        let ours = histogram.quantile(0.99).unwrap() as f64;
        assert!((own / ours - 1.0).abs() < 0.02, "{own} {ours}");
    }

    #[test]
    fn groups_and_the_sum_over_servers_are_known_as_such() {
        let group = fio_json(GROUP).unwrap();
        assert_eq!(group.jobs.len(), 1);
        assert_eq!(group.jobs[0].directions.len(), 2);
        let client = fio_json(CLIENT).unwrap();
        let sums: Vec<bool> = client.jobs.iter().map(|job| job.is_sum).collect();
        assert_eq!(sums, [false, false, false, true]);
        assert_eq!(client.jobs[0].host.as_deref(), Some("storage-1"));
    }

    #[test]
    fn lines_before_the_document_are_noted_and_of_several_documents_the_last_is_read() {
        let text = format!("fio: a warning\nnote: another\n{OLD}");
        let read = fio_json(&text).unwrap();
        assert_eq!(read.notes, ["2 lines before the document, the first: fio: a warning"]);
        assert!(is_fio_json(&text));
        let read = fio_json(&format!("{GROUP}\n{OLD}\nRun status group 0\n")).unwrap();
        assert_eq!(read.jobs.len(), 3);
        assert_eq!(read.notes.len(), 2);
        assert!(read.notes[1].starts_with("2 documents"), "{:?}", read.notes);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        let refused = |text: &str| fio_json(text).unwrap_err().to_string();
        for (text, expected) in [
            ("", "the file: found nothing, expected fio's JSON"),
            ("fio: nothing\n", "the file: found `fio: nothing`"),
            ("{}", "found no field `fio version`"),
            ("{\"fio version\": \"fio-2.19\", \"jobs\": []}", "expected fio-3 or newer"),
            ("{\"fio version\": \"fio-3.33\"}", "neither `jobs` nor `client_stats`"),
            ("{\"fio version\": \"fio-3.33\", \"jobs\": []}", "jobs: found 0 jobs"),
            ("{\"fio version\": 3}", "fio version: found 3, expected a string"),
            (&OLD[..OLD.len() / 2], "a document that was cut off"),
            (&"{\"a\":".repeat(100), "65 levels of nesting"),
        ] {
            let error = refused(text);
            assert!(error.contains(expected), "{error}");
        }
        let changed = |from: &str, to: &str| {
            assert!(OLD.contains(from), "{from}");
            refused(&OLD.replacen(from, to, 1))
        };
        let error = changed("\"iops\" : 40282.858571", "\"iops\" : -1.5");
        assert_eq!(error, "jobs[0].read.iops: found -1.5, expected a number of at least 0");
        let error = changed("\"iops\" : 40282.858571", "\"iops\" : nan");
        assert!(error.starts_with("line 30: found `\"iops\" : nan,`"), "{error}");
        let error = changed("\"99.000000\" : 501760", "\"99.000000\" : 5017600");
        let place = "jobs[0].read.clat_ns.percentile: found p99 = 5017600 and p99.5 = 2211840";
        assert!(error.starts_with(place), "{error}");
        let error = changed("\"total_ios\" : 80606", "\"total_ios\" : 18446744073709551615");
        assert!(error.contains("expected a whole number from 0 to 2^53"), "{error}");
        let error = changed("\"min\" : 23805", "\"min\" : 99999999");
        assert!(error.contains("a minimum that is no more than the maximum"), "{error}");
    }

    #[test]
    fn whatever_is_done_to_a_document_it_is_read_or_refused() {
        let (mut read, mut refused) = (0, 0);
        for (seed, text) in [(1, OLD), (2, NEW), (3, CLIENT)] {
            for mutated in mutations(text, seed, 150) {
                match fio_json(&mutated) {
                    Ok(_) => read += 1,
                    Err(error) => {
                        assert!(error.to_string().contains("expected"), "{error}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(read > 20 && refused > 20, "{read} read, {refused} refused");
    }
}
