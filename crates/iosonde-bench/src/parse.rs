//! Parses the output of each tool. iosonde's keys are used only here.

use serde_json::Value;

/// The figures that a tool reported for one run; `None` if it does not report one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Reported {
    /// Operations per second.
    pub(crate) iops: f64,
    pub(crate) ops: Option<f64>,
    /// Mean latency from before submission, in ns.
    pub(crate) mean_ns: Option<f64>,
    /// Median latency from before submission, in ns.
    pub(crate) p50_ns: Option<f64>,
    /// 99th percentile of it, in ns.
    pub(crate) p99_ns: Option<f64>,
    /// CPU time of the work as the tool reports it, without start and end, in user and in system
    /// mode, in ns.
    pub(crate) cpu_ns: Option<(f64, f64)>,
}

fn document(text: &str) -> Option<Value> {
    // fio may print text before its JSON.
    serde_json::from_str(&text[text.find('{')?..]).ok()
}

/// `iosonde run --output-format json`: all directions together, from `summary`.
pub(crate) fn iosonde(text: &str) -> Option<Reported> {
    let document = document(text)?;
    let total = document.pointer("/summary/total")?;
    let number = |pointer: &str| total.pointer(pointer).and_then(Value::as_f64);
    Some(Reported {
        iops: number("/iops")?,
        ops: number("/ops"),
        mean_ns: number("/latency_ns/mean"),
        p50_ns: number("/latency_ns/p50"),
        p99_ns: number("/latency_ns/p99"),
        cpu_ns: None,
    })
}

/// `iosonde doctor --output-format json`: the floor of a bare loop of calls, in ns.
pub(crate) fn iosonde_floor_ns(text: &str) -> Option<f64> {
    Some(document(text)?.pointer("/floor/psync_p50_ps")?.as_f64()? / 1e3)
}

/// fio's JSON, and BFFIO's, which has the same format. fio's percentiles start at submission, not
/// before it, so only the mean of `lat` is taken.
pub(crate) fn fio(text: &str) -> Option<Reported> {
    let document = document(text)?;
    let way = |name: &str| document.pointer(&format!("/jobs/0/{name}"));
    let went = |way: &&Value| way.pointer("/iops").and_then(Value::as_f64).is_some_and(|n| n > 0.0);
    let way = way("write").filter(went).or_else(|| way("read"))?;
    let number = |pointer: &str| way.pointer(pointer).and_then(Value::as_f64);
    let mean_ns = number("/lat_ns/mean").filter(|&mean| mean > 0.0);
    Some(Reported {
        iops: number("/iops")?,
        ops: number("/total_ios"),
        mean_ns,
        ..Reported::default()
    })
}

/// From a record of iosonde: start of its measurement window, ns since 1970.
pub(crate) fn iosonde_started_unix_ns(record: &str) -> Option<u64> {
    document(record)?.pointer("/started_unix_ns")?.as_u64()
}

/// From a record of iosonde: CPU time of its jobs within the window, without start and end, ns.
pub(crate) fn iosonde_cpu_ns(record: &str) -> Option<f64> {
    let document = document(record)?;
    let jobs = document.pointer("/jobs")?.as_array()?;
    let of = |job: &Value| Some(job["cpu_user_ns"].as_f64()? + job["cpu_system_ns"].as_f64()?);
    jobs.iter().map(of).sum()
}

fn scaled(text: &str) -> Option<f64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    match &text[split..] {
        "" => Some(number),
        "K" => Some(number * 1e3),
        "M" => Some(number * 1e6),
        _ => None,
    }
}

/// `t/io_uring`: the mean of its lines `IOPS=1.90M, ...`, one per second.
pub(crate) fn t_io_uring(text: &str) -> Option<Reported> {
    let seconds: Vec<f64> = text
        .lines()
        .filter_map(|line| scaled(line.strip_prefix("IOPS=")?.split(',').next()?))
        .collect();
    let iops = seconds.iter().sum::<f64>() / seconds.len() as f64;
    (!seconds.is_empty()).then(|| Reported { iops, ..Reported::default() })
}

/// `ioping -B`: count, time, rate, bytes per second, minimum, mean, maximum, ...
pub(crate) fn ioping(text: &str) -> Option<Reported> {
    let line = text.lines().last()?;
    let field = |i: usize| line.split_whitespace().nth(i).and_then(|field| field.parse().ok());
    Some(Reported { iops: field(2)?, ops: field(0), mean_ns: field(5), ..Reported::default() })
}

/// elbencho's table: the line `IOPS : FIRST LAST`.
pub(crate) fn elbencho(text: &str) -> Option<Reported> {
    text.lines().find_map(|line| {
        let (name, values) = line.split_once(':')?;
        let iops = values.split_whitespace().last()?.parse().ok()?;
        let found = name.split_whitespace().next()? == "IOPS";
        found.then(|| Reported { iops, ..Reported::default() })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn each_tool_is_understood() {
        let ours = r#"{"summary":{"total":{"ops":10,"iops":5.5,
            "latency_ns":{"p50":500,"p99":null,"mean":512.5}}}}"#;
        let expected = Reported {
            iops: 5.5,
            ops: Some(10.0),
            mean_ns: Some(512.5),
            p50_ns: Some(500.0),
            ..Reported::default()
        };
        assert_eq!(iosonde(ours), Some(expected));
        assert_eq!(iosonde_floor_ns(r#"{"floor":{"psync_p50_ps":528500}}"#), Some(528.5));
        let record = r#"{"started_unix_ns":7,"jobs":[{"cpu_user_ns":3,"cpu_system_ns":4}]}"#;
        assert_eq!(iosonde_started_unix_ns(record), Some(7));
        assert_eq!(iosonde_cpu_ns(record), Some(7.0));
        let fio_json = "fio: a word\n{\"jobs\":[{\"read\":{\"iops\":2.0,\"total_ios\":4,\
                        \"lat_ns\":{\"mean\":0.0}}}]}";
        assert_eq!(
            fio(fio_json).unwrap(),
            Reported { iops: 2.0, ops: Some(4.0), ..Reported::default() }
        );
        let t =
            "Engine=io_uring\nIOPS=1.90M, BW=7.42GiB/s\nIOPS=2.00M, BW=8GiB/s\nMaximum IOPS=2.00M";
        assert!((t_io_uring(t).unwrap().iops - 1.95e6).abs() < 1.0);
        let ping = ioping("2436977 1040183463 2342834 9596247342 385 427 288833 519 2436978 15\n");
        assert_eq!((ping.unwrap().iops, ping.unwrap().mean_ns), (2_342_834.0, Some(427.0)));
        let table = "READ  Elapsed time : 2s 2s\n      IOPS   :  1000  1017\n";
        assert_eq!(elbencho(table).unwrap().iops, 1017.0);
    }

    #[test]
    fn nonsense_is_no_result() {
        for parse in [iosonde, fio, t_io_uring, ioping, elbencho] {
            for text in ["", "{}", "no such file", "{\"jobs\":[]}"] {
                assert_eq!(parse(text), None, "{text}");
            }
        }
    }
}
