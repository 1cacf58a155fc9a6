//! stdout carries the result, stderr everything else. A closed stdout ends the output, not the
//! measurement; a stdout that cannot be written, such as a file on a full disk, is a failure.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::color::colored;
use super::exit::{About, Exit, Failure, wrong};
use super::screen;
use super::words::values;
use iosonde_model::record::export;
use iosonde_report::clean::clean;
use iosonde_report::fio::json::{Form, fio_json};
use iosonde_report::fio::numbered;
use iosonde_report::fio::terse::{Version, terse};
use iosonde_report::json::{self, Document};
use iosonde_report::wrapped;

/// Format of the result on stdout.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text for people.
    #[default]
    #[value(alias = "text")]
    Normal,
    /// One JSON document, also on errors.
    #[value(alias = "iosonde-json")]
    Json,
    /// fio's JSON document, for tools that read fio results.
    FioJson,
    /// The same with histogram bins, as fio's json+.
    #[value(name = "json+")]
    JsonPlus,
    /// fio's terse output, version 3: one line per job.
    Terse,
    /// The same of version 5, with trims and samples.
    #[value(name = "terse-5")]
    TerseFive,
    /// The plan as a fio job file; with --dry-run.
    FioJob,
}

impl OutputFormat {
    /// A format by fio's name or ours.
    pub(crate) fn of_fio(word: &str) -> Option<OutputFormat> {
        match word {
            "json" => Some(OutputFormat::FioJson),
            word => OutputFormat::from_str(word, false).ok(),
        }
    }

    /// Position of this format among the documents of one command: fio's order.
    pub(crate) fn turn(self) -> u8 {
        match self {
            OutputFormat::Terse | OutputFormat::TerseFive => 0,
            OutputFormat::FioJson | OutputFormat::JsonPlus => 1,
            OutputFormat::Json | OutputFormat::FioJob => 2,
            OutputFormat::Normal => 3,
        }
    }

    /// The requested format, determined even if the rest of the command line is invalid.
    pub(crate) fn in_words(words: &[String]) -> OutputFormat {
        let word = values(words, "--output-format").next().unwrap_or_default();
        OutputFormat::from_str(word, false).unwrap_or_default()
    }

    /// A parser for verbs whose help lists text and JSON only; other formats get their own error.
    pub(crate) fn text_or_json() -> impl TypedValueParser<Value = OutputFormat> {
        OutputFormat::listed(&[OutputFormat::Normal, OutputFormat::Json])
    }

    /// A parser for verbs that measure runs, but whose plan is not one fio job file.
    pub(crate) fn of_runs() -> impl TypedValueParser<Value = OutputFormat> {
        let all = OutputFormat::value_variants();
        let runs: Vec<OutputFormat> =
            all.iter().copied().filter(|format| *format != OutputFormat::FioJob).collect();
        OutputFormat::listed(&runs)
    }

    fn listed(shown: &[OutputFormat]) -> impl TypedValueParser<Value = OutputFormat> + use<> {
        let all = OutputFormat::value_variants().iter();
        let values: Vec<PossibleValue> = all
            .filter_map(|format| Some(format.to_possible_value()?.hide(!shown.contains(format))))
            .collect();
        PossibleValuesParser::new(values).try_map(|word| OutputFormat::from_str(&word, false))
    }

    /// Refuses a format that cannot represent a plan.
    pub(crate) fn supports_plans(self) -> Result<(), Failure> {
        if self == OutputFormat::FioJob { Ok(()) } else { self.supports("--dry-run") }
    }

    /// Refuses a format that represents only results, and not `what`, such as a dry run.
    pub(crate) fn supports(self, what: &str) -> Result<(), Failure> {
        if matches!(self, OutputFormat::Normal | OutputFormat::Json) {
            return Ok(());
        }
        Err(wrong(format!("{what} has no result in fio's format; use --output-format=json")))
    }
}

/// Checks that this program can write PNG.
///
/// # Errors
/// If it was built without PNG.
pub(crate) fn has_png() -> Result<(), Failure> {
    let missing = "--png: this program was built without PNG; without --png there is SVG";
    if cfg!(feature = "png") { Ok(()) } else { Err(wrong(missing)) }
}

/// Remarks held back from the middle of a document, where stderr and stdout are one stream
/// (`2>&1 | jq`); `None` while remarks go to stderr.
static HELD_BACK: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Whether anything was written to stdout.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// The output of a command: the result, and failures on stderr.
#[derive(Debug, Default)]
pub(crate) struct Output {
    format: OutputFormat,
    closed: bool,
    /// The result could not be written to stdout, for a reason other than a closed pipe.
    lost: bool,
    /// The file that replaces stdout, and its content so far.
    file: Option<(PathBuf, String)>,
    /// Further formats in which the document is written.
    more: Vec<OutputFormat>,
    /// Text held until the documents are written, which come first, as in fio.
    waiting: String,
}

impl Output {
    pub(crate) fn new(format: OutputFormat) -> Output {
        Output { format, ..Output::default() }
    }

    /// Output to a file instead of stdout, if one is given. An existing file is replaced only if it
    /// is an earlier result.
    pub(crate) fn to(format: OutputFormat, path: Option<&Path>) -> Result<Output, Failure> {
        // stdout by name is not opened again, as it may be a pipe: scripts for fio name it.
        let own = [Path::new("/dev/stdout"), Path::new("/dev/fd/1"), Path::new("/proc/self/fd/1")];
        let Some(path) = path.filter(|path| !own.contains(path)) else {
            return Ok(Output::new(format));
        };
        if !export::is_stream(path) {
            export::probe(path, &is_result).or_wrong(format!("--output: `{}`", path.display()))?;
        }
        Ok(Output { file: Some((path.into(), String::new())), ..Output::new(format) })
    }

    /// Writes the document in these formats too.
    pub(crate) fn also(mut self, more: &[OutputFormat]) -> Output {
        self.more = more.to_vec();
        self
    }

    pub(crate) fn is_fio_job(&self) -> bool {
        self.format == OutputFormat::FioJob
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == OutputFormat::Json
    }

    /// Prints text, if that is the format.
    pub(crate) fn text(&mut self, text: &str) {
        if self.format == OutputFormat::Normal {
            let text = shown(text);
            let text = screen::wrap_at().map_or(text.clone(), |most| wrapped(&text, most));
            if !self.more.is_empty() {
                return self.waiting.push_str(&text);
            }
            match self.file {
                Some(_) => self.write(&text),
                None => self.write(&colored(&text, &io::stdout())),
            }
        }
    }

    /// Prints the text of a file unchanged, if text is the format: a program may read it.
    pub(crate) fn file(&mut self, text: &str) {
        if self.format == OutputFormat::Normal {
            self.write(text);
        }
    }

    /// Writes the document in each of the formats, then the text held for it.
    pub(crate) fn document(&mut self, document: &Document<'_>) {
        let formats: Vec<OutputFormat> = self.more.drain(..).chain([self.format]).collect();
        for format in &formats {
            self.format = *format;
            self.one_document(document);
        }
        let has_all = |format: &OutputFormat| {
            matches!(format, OutputFormat::Normal | OutputFormat::FioJob | OutputFormat::Json)
        };
        if !formats.iter().all(has_all) {
            self.print_left_out(document);
        }
        let waiting = std::mem::take(&mut self.waiting);
        self.text(&waiting);
    }

    fn one_document(&mut self, document: &Document<'_>) {
        let now_ns = iosonde_sys::clock::realtime_ns;
        let fio = |form| {
            let mut value = fio_json(document, form, now_ns());
            if let Ok(Some(held)) = HELD_BACK.lock().as_deref() {
                value["iosonde"]["notes"] = held.as_slice().into();
            }
            json::json_text(&value)
        };
        let as_terse = |version| {
            let runs = numbered(document);
            runs.iter().map(|run| terse(run, version)).collect()
        };
        let text = match self.format {
            OutputFormat::Normal | OutputFormat::FioJob => return,
            OutputFormat::Json => json::json_text(&json::json(document)),
            OutputFormat::FioJson => fio(Form::Plain),
            OutputFormat::JsonPlus => fio(Form::Bins),
            OutputFormat::Terse => as_terse(Version::Three),
            OutputFormat::TerseFive => as_terse(Version::Five),
        };
        self.write(&text);
    }

    /// Reports runs left out by fio's formats: their consistency checks failed.
    fn print_left_out(&self, document: &Document<'_>) {
        for (run, _) in document.cells.iter().filter(|(_, facts)| !facts.consistency.valid()) {
            let name = &run.plan.name;
            note(&format!("error: {name} is left out: INVALID, its consistency checks failed"));
        }
    }

    /// Writes a fio job file, if that is the format.
    pub(crate) fn fio_job(&mut self, text: &str) {
        if self.format == OutputFormat::FioJob {
            self.write(text);
        }
    }

    /// Writes a value that is not a [`Document`], if JSON is the format.
    pub(crate) fn value(&mut self, value: &serde_json::Value) {
        if self.is_json() {
            self.write(&json::json_text(value));
        }
    }

    /// Reports a failure: on stderr, and as a document in a format for programs.
    pub(crate) fn failure(&mut self, verb: &str, failure: &Failure) {
        let hint = failure.hint.as_deref();
        self.document(&Document {
            verb,
            exit_code: failure.exit.code(),
            error: Some(json::Failure { kind: failure.kind(), message: &failure.message, hint }),
            ..Document::default()
        });
        note(&format!("error: {}", failure.message));
        if let Some(hint) = hint {
            note(&format!("hint: {hint}"));
        }
    }

    /// Reports a failure from the watchdog, which interrupts the verb anywhere: if the verb has
    /// begun a document, no other follows.
    pub(crate) fn last_words(&mut self, verb: &str, failure: &Failure) {
        self.closed = HAS_BEGUN.load(Ordering::Relaxed);
        self.failure(verb, failure);
    }

    /// Writes the file, if any. Returns `exit`, or a failure if the result was not written.
    pub(crate) fn end(&self, exit: Exit) -> Exit {
        if let Some((path, text)) = &self.file
            && let Err(error) = match export::is_stream(path) {
                true => export::write_stream(path, text),
                false => export::write(path, text),
            }
        {
            note(&format!("error: `{}` cannot be written: {error}", path.display()));
            return exit.or_graver(Exit::Environment);
        }
        if self.lost { exit.or_graver(Exit::Environment) } else { exit }
    }

    fn write(&mut self, text: &str) {
        if let Some((_, held)) = &mut self.file {
            held.push_str(text);
            return;
        }
        if self.closed {
            return;
        }
        HAS_BEGUN.store(true, Ordering::Relaxed);
        if let Err(error) = to_stdout(text) {
            self.closed = true;
            // A closed pipe is not an error. Anything else is reported.
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.lost = true;
                note(&format!("error: stdout cannot be written: {error}"));
            }
        }
    }
}

/// Writes to stdout. Fails if it was closed when the program was started, since `/dev/null` has
/// replaced it.
pub(crate) fn to_stdout(text: &str) -> io::Result<()> {
    stdout_is_open()?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}

/// Fails if there was no stdout when the program was started.
pub(crate) fn stdout_is_open() -> io::Result<()> {
    match iosonde_sys::stdout::was_closed() {
        true => Err(io::Error::other("it was closed when the program was started")),
        false => Ok(()),
    }
}

/// Whether a file begins like a result of this program.
fn is_result(start: &str) -> bool {
    let json = start.starts_with('{')
        && ["\"fio version\"", "\"schema\""].iter().any(|key| start.contains(key));
    let texts = ["read as fio's", "3;", "5;"];
    let is_second =
        |line: &str| ["Confidence: ", "Complete: "].iter().any(|head| line.starts_with(head));
    let is_text = start.starts_with("Result: ") && start.lines().any(is_second);
    json || is_text || texts.iter().any(|text| start.starts_with(text))
}

/// Holds remarks back if they would appear within a document of a fio format; returns whether.
pub(crate) fn hold_remarks_back(format: OutputFormat, path: Option<&Path>) -> bool {
    let is_fios = !matches!(format, OutputFormat::Normal | OutputFormat::Json);
    let holds = is_fios && path.is_none() && screen::is_one_stream();
    if holds && let Ok(mut held) = HELD_BACK.lock() {
        held.get_or_insert_default();
    }
    holds
}

/// Text that is safe to print: everything but our own line breaks is escaped, whatever strings it
/// contains.
fn shown(text: &str) -> String {
    static GIVEN: OnceLock<Vec<String>> = OnceLock::new();
    let mut text = Cow::from(text);
    for name in GIVEN.get_or_init(|| names_with_breaks(std::env::args_os())) {
        if text.contains(name) {
            text = text.replace(name, &clean(name)).into();
        }
    }
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// File names on the command line that contain line breaks, which are not our own.
fn names_with_breaks(words: impl Iterator<Item = OsString>) -> Vec<String> {
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let names = words.flat_map(|word| word.split('/').map(str::to_owned).collect::<Vec<_>>());
    let has_break = |name: &String| name.trim().contains('\n');
    names.filter(has_break).map(|name| name.trim().to_owned()).collect()
}

/// Prints a line on stderr, with foreign strings escaped.
pub(crate) fn note(line: &str) {
    let is_remark = ["note: ", "results stored in "].iter().any(|begin| line.starts_with(begin));
    if is_remark
        && let Ok(mut held) = HELD_BACK.lock()
        && let Some(held) = held.as_mut()
    {
        held.push(line.into());
        return;
    }
    let line = shown(line);
    let safe: Vec<&str> = line.lines().collect();
    let text = format!("iosonde: {}", safe.join("\n         "));
    let text = match io::stderr().is_terminal() {
        true => wrapped(&text, screen::error_columns()),
        false => text,
    };
    // A closed stderr cannot be reported.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_our_own_line_breaks_is_escaped() {
        assert_eq!(shown("one\ntwo\u{1b}[2J\u{2028}\n"), "one\ntwo\\x1b[2J\\u{2028}\n");
        let words = ["iosonde", "--path=/a b\nc/d", "\n", "e\n"].map(OsString::from);
        assert_eq!(names_with_breaks(words.into_iter()), ["a b\nc"]);
    }
}
