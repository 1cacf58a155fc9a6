//! Jobs with their inherited options, in groups that run one after another.

use std::collections::BTreeMap;

use super::lex::{self, Line, Outside, Section};
use super::number::{Amount, KbBase};
use super::table::{self, Entry, Stand};
use super::value::{self, Value, Ways};
use super::{Fault, Faults, Place, effect, iolog, shown};

/// A parsed job file.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// Groups in run order; at least one.
    pub groups: Vec<Group>,
    /// Differences from fio, in words.
    pub notes: Vec<String>,
}

/// Jobs that run at the same time; at least one.
#[derive(Clone, Debug)]
pub struct Group {
    /// The jobs in the order of the file.
    pub jobs: Vec<FioJob>,
}

/// One job section with everything it inherits.
#[derive(Clone, Debug)]
pub struct FioJob {
    /// Name: `name` if its own section gives one, else that of the section.
    pub name: String,
    /// Its section, which names its files.
    pub section: String,
    pub place: Place,
    /// Text of the log of `read_iolog`, filled in by the caller.
    pub iolog: Option<iolog::Text>,
    settings: BTreeMap<&'static str, Setting>,
}

/// An option with its value and its place.
#[derive(Clone, Debug)]
pub struct Setting {
    pub entry: &'static Entry,
    pub value: Value,
    /// The value as written, if any.
    pub text: Option<String>,
    pub place: Place,
}

/// Options that a replayed log overrides.
const INSTEAD: &str = "bs bsrange bssplit ba size filesize io_size offset offset_increment \
    number_ios loops nrfiles random_distribution percentage_random norandommap rwmixread \
    rwmixwrite fsync fdatasync file_service_type zonemode zonesize time_based rw_sequencer";

/// Most faults reported; later ones add little.
const MAX_FAULTS: usize = 50;

/// Parses a job file.
///
/// # Errors
/// Everything that prevents a run: each fault names the option, the file and the line.
pub fn parse(text: &str, file: &str, outside: &mut Outside<'_>) -> Result<JobFile, Faults> {
    jobs(&[], &[lex::sections(text, file, outside)?], &[])
}

/// The jobs of a command line and of its job files. As in fio, options before the first job of the
/// command line are defaults of the first file, and the jobs of each further file begin after those
/// of the previous one. `only` selects sections of the files; empty means all.
///
/// # Errors
/// Everything that prevents a run: each fault names the option, the file and the line.
pub fn jobs(line: &[Section], files: &[Vec<Section>], only: &[String]) -> Result<JobFile, Faults> {
    let mut reader = Reader::default();
    line.iter().for_each(|section| reader.section(section));
    for (index, sections) in files.iter().enumerate() {
        if index > 0 {
            reader.next_file();
        }
        let wanted = |name: &String| name == "global" || only.is_empty() || only.contains(name);
        sections.iter().filter(|s| wanted(&s.name)).for_each(|section| reader.section(section));
    }
    let all = || files.iter().flatten();
    if let Some(missing) = only.iter().find(|name| !all().any(|section| section.name == **name)) {
        let place = all().next().map_or(Place::new("command line", 0), |s| s.place.clone());
        let what = format!("--section={}: there is no such section", shown(missing));
        reader.faults.push(Fault::new(&place, what));
    }
    let file = all().chain(line).next().map_or("command line", |section| &section.place.file);
    reader.finish(file)
}

/// `exitall` is global in fio: it applies to every job, regardless of its section.
fn spread_exitall(groups: &mut [Group]) {
    let mut jobs = groups.iter().flat_map(|group| &group.jobs);
    let given = jobs.find(|job| job.is_on("exitall"));
    let Some(setting) = given.and_then(|job| job.settings.get("exitall").cloned()) else { return };
    for job in groups.iter_mut().flat_map(|group| &mut group.jobs) {
        job.settings.insert("exitall", setting.clone());
    }
}

#[derive(Default)]
struct Reader {
    inherited: BTreeMap<&'static str, Setting>,
    /// A line of a global section that no job follows so far.
    unused: Option<Place>,
    groups: Vec<Group>,
    /// Whether the next job begins a group because it is the first of a further file.
    walled: bool,
    notes: Vec<String>,
    faults: Vec<Fault>,
}

impl Reader {
    /// Inherited options end with their file.
    fn next_file(&mut self) {
        if !self.inherited.is_empty() {
            let what = "options of the command line and of [global] reach one job file, the first";
            self.notes.push(format!("as in fio, {what}"));
        }
        self.inherited.clear();
        self.walled = true;
    }

    fn section(&mut self, section: &Section) {
        let mut settings = self.inherited.clone();
        let base = self.base(section, &settings);
        for line in &section.lines {
            match self.setting(line, base) {
                Ok(setting) => {
                    settings.insert(setting.entry.name, setting);
                }
                Err(fault) => self.faults.push(fault),
            }
        }
        if section.name == "global" {
            self.inherited = settings;
            let first = section.lines.first();
            self.unused = first.map(|line| Place { section: None, ..line.place.clone() });
            return;
        }
        self.unused = None;
        let place = section.place.clone();
        // As in fio, an inherited `name` does not apply to the job.
        let named = section.lines.iter().rfind(|line| line.key == "name");
        let name = named.and_then(|line| line.value.as_deref()).unwrap_or(&section.name);
        let (name, section) = (name.to_string(), section.name.clone());
        let job = FioJob { name, section, place, iolog: None, settings };
        let walled = std::mem::take(&mut self.walled) || job.is_on("stonewall");
        match self.groups.last_mut().filter(|_| !walled) {
            Some(group) => group.jobs.push(job),
            None => self.groups.push(Group { jobs: vec![job] }),
        }
    }

    /// The base of the section; fio reads `kb_base` before any other option.
    fn base(&self, section: &Section, inherited: &BTreeMap<&'static str, Setting>) -> KbBase {
        let own = section.lines.iter().rfind(|line| line.key == "kb_base");
        let own = own.and_then(|line| line.value.as_deref());
        let inherited = inherited.get("kb_base").map(|setting| &setting.value);
        match (own, inherited) {
            (Some("1000"), _) | (None, Some(Value::Word("1000", _))) => KbBase::Decimal,
            _ => KbBase::Binary,
        }
    }

    fn setting(&mut self, line: &Line, base: KbBase) -> Result<Setting, Fault> {
        let fault = |what: String| Fault::new(&line.place, what);
        let mut entry = table::find(&line.key).map_err(fault)?;
        if entry.name == "threads" {
            let what = "threads: fio ignores this; it is treated as `thread`";
            self.notes.push(format!("{} {what}", line.place));
            entry = table::find("thread").map_err(fault)?;
        }
        if let Stand::Refused(why) = entry.stand {
            return Err(fault(format!("{} is not supported: {why}", entry.name)));
        }
        let value = value::read(entry.kind, line.value.as_deref(), base)
            .map_err(|what| fault(format!("{}: {what}", entry.name)))?;
        if let Stand::Only(accepted, why) = entry.stand {
            let given = line.value.as_deref().unwrap_or("1");
            if !accepted.contains(&given) {
                return Err(fault(format!(
                    "{}={} is not supported: {why}",
                    entry.name,
                    shown(given)
                )));
            }
        }
        Ok(Setting { entry, value, text: line.value.clone(), place: line.place.clone() })
    }

    fn finish(mut self, file: &str) -> Result<JobFile, Faults> {
        if let Some(place) = &self.unused {
            let what = "a [global] section without a following job has no effect";
            let fault = Fault::new(place, what);
            match self.groups.is_empty() {
                true => self.faults.push(fault),
                false => self.notes.push(fault.to_string()),
            }
        } else if self.groups.is_empty() {
            let what = "found no job, expected a section such as [job] besides [global]";
            self.faults.push(Fault::new(&Place::new(file, 0), what));
        }
        if self.faults.is_empty() {
            spread_exitall(&mut self.groups);
            let idle = effect::ineffective(self.groups.iter().flat_map(|group| &group.jobs));
            self.notes.extend(idle.iter().map(Fault::to_string));
            let jobs = self.groups.iter().flat_map(|group| &group.jobs);
            self.notes.extend(table::lost(jobs.flat_map(FioJob::settings)));
            return Ok(JobFile { groups: self.groups, notes: self.notes });
        }
        self.faults.truncate(MAX_FAULTS);
        Err(Faults(self.faults))
    }
}

impl FioJob {
    /// All given options, under canonical names.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.settings.values()
    }

    /// An option, if given.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    /// The place of an option, or the start of the job if it was not given.
    pub fn place(&self, name: &str) -> &Place {
        self.get(name).map_or(&self.place, |setting| &setting.place)
    }

    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.get(name).map(|setting| &setting.value)
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        let Value::Bool(flag) = self.value(name)? else { return None };
        Some(*flag)
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.flag(name) == Some(true)
    }

    pub(super) fn is_off(&self, name: &str) -> bool {
        self.flag(name) == Some(false)
    }

    pub(super) fn count(&self, name: &str) -> Option<u64> {
        let Value::Count(count) = self.value(name)? else { return None };
        Some(*count)
    }

    pub(super) fn ways(&self, name: &str) -> Ways<u64> {
        let Some(Value::Counts(ways)) = self.value(name) else { return [None; 3] };
        *ways
    }

    pub(super) fn amount(&self, name: &str) -> Option<Amount> {
        let Value::Size(amount) = self.value(name)? else { return None };
        Some(*amount)
    }

    pub(super) fn time_ns(&self, name: &str) -> Option<u64> {
        let Value::Time(ns) = self.value(name)? else { return None };
        Some(*ns)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let Value::Text(text) = self.value(name)? else { return None };
        Some(text)
    }

    /// The word of an option, with the text after a colon.
    pub(super) fn word(&self, name: &str) -> Option<(&'static str, Option<&str>)> {
        let Value::Word(word, rest) = self.value(name)? else { return None };
        Some((word, rest.as_deref()))
    }

    pub(super) fn has_word(&self, name: &str, wanted: &str) -> bool {
        self.word(name).is_some_and(|(word, _)| word == wanted)
    }

    /// The base of a kilobyte in the sizes of the job.
    pub(super) fn base(&self) -> KbBase {
        if self.has_word("kb_base", "1000") { KbBase::Decimal } else { KbBase::Binary }
    }

    pub(super) fn cpus(&self, name: &str) -> Option<&[u32]> {
        let Value::Cpus(cpus) = self.value(name)? else { return None };
        Some(cpus)
    }

    /// The path of the log that the job replays.
    pub fn iolog_path(&self) -> Option<&str> {
        self.text("read_iolog")
    }

    /// Given options that the log overrides.
    pub(super) fn replaced(&self) -> impl Iterator<Item = &Setting> {
        INSTEAD.split_whitespace().filter_map(|name| self.get(name))
    }

    /// The job with the direction of a log, without the options that the log overrides.
    pub(super) fn replaying(&self, rw: &'static str) -> FioJob {
        let mut job = self.clone();
        INSTEAD.split_whitespace().for_each(|name| drop(job.settings.remove(name)));
        if let Ok(entry) = table::find("rw") {
            let place = self.place("read_iolog").clone();
            let value = Value::Word(rw, None);
            job.settings.insert(entry.name, Setting { entry, value, text: None, place });
        }
        job
    }

    /// Options and values as written, either in `[global]` or in the job's section.
    pub fn written(&self, global: bool) -> BTreeMap<String, String> {
        let is_global = |place: &Place| place.section.as_deref() == Some("global");
        let there = self.settings.values().filter(|set| is_global(&set.place) == global);
        there.filter_map(|set| Some((set.entry.name.into(), set.text.clone()?))).collect()
    }

    /// Whether it is reported together with the previous job of its group, as in fio.
    pub fn is_grouped(&self) -> bool {
        self.is_on("group_reporting")
    }

    /// A fault in this option of the job.
    pub(super) fn fault(&self, name: &str, what: impl AsRef<str>) -> Fault {
        Fault::new(self.place(name), format!("{name}: {}", what.as_ref()))
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Parses without includes or environment variables.
    pub(in super::super) fn read(text: &str) -> Result<JobFile, String> {
        let mut outside = Outside {
            load: &mut |_| Err("none".into()),
            env: None,
            page_bytes: 4096,
            memory_mib: 1024,
            cpus: 2,
        };
        parse(text, "job.fio", &mut outside).map_err(|faults| faults.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::testing::read;
    use super::*;

    #[test]
    fn globals_reach_what_follows_and_stonewall_divides() {
        let text = "[global]\nbs=8k\nrw=randread\nsize=1m\n[a]\n[b]\nbs=16k\n[global]\nsize=2m\n\
                    [c]\nstonewall\n[d]\nwait_for_previous\n";
        let file = read(text).unwrap();
        let sizes: Vec<Vec<u64>> = file
            .groups
            .iter()
            .map(|group| group.jobs.iter().map(|job| job.ways("bs")[0].unwrap()).collect())
            .collect();
        assert_eq!(sizes, [vec![8192, 16_384], vec![8192], vec![8192]]);
        assert_eq!(file.groups[0].jobs[0].amount("size"), Some(Amount::Bytes(1 << 20)));
        assert_eq!(file.groups[1].jobs[0].amount("size"), Some(Amount::Bytes(2 << 20)));
        assert_eq!(file.groups[0].jobs[1].place("bs").line, 7);
        assert_eq!(file.groups[0].jobs[1].place("size").line, 4);
    }

    #[test]
    fn a_name_is_of_the_section_that_gives_it() {
        let file = read("[global]\nname=all\nsize=1m\n[a]\n[b]\nname=bees\n").unwrap();
        let jobs = file.groups[0].jobs.iter();
        let names: Vec<_> = jobs.map(|job| (job.name.as_str(), job.section.as_str())).collect();
        assert_eq!(names, [("a", "a"), ("bees", "b")]);
    }

    #[test]
    fn kb_base_counts_for_its_section_wherever_it_stands() {
        let file = read("[a]\nsize=4k\nkb_base=1000\n").unwrap();
        assert_eq!(file.groups[0].jobs[0].amount("size"), Some(Amount::Bytes(4000)));
    }

    #[test]
    fn every_fault_has_its_line_and_its_section() {
        let text = "[global]\nexec_prerun=rm -rf x\nbs=4q\n[a]\nruntme=3\ncgroup=8\nthreads=1\n";
        let error = read(text).unwrap_err();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 4, "{error}");
        assert!(lines[0].starts_with("job.fio:2: [global] exec_prerun is not supported: it runs"));
        assert!(lines[1].starts_with("job.fio:3: [global] bs: found the unit `q`"));
        let expected = "job.fio:5: [a] `runtme` is not a fio option; did you mean `runtime`";
        assert!(lines[2].contains(expected), "{error}");
        assert!(lines[3].starts_with("job.fio:6: [a] cgroup is not supported"));
    }

    #[test]
    fn threads_is_read_as_thread_and_said_so() {
        let file = read("[a]\nthreads=1\nsize=1m\n").unwrap();
        assert_eq!(file.groups[0].jobs[0].flag("thread"), Some(true));
        assert!(file.notes[0].starts_with("job.fio:2: [a] threads: "), "{:?}", file.notes);
    }

    #[test]
    fn a_file_without_jobs_is_refused_and_a_global_without_followers_noted() {
        assert!(read("").unwrap_err().contains("found no job"));
        assert!(read("[global]\nbs=4k\n").unwrap_err().contains("job.fio:2: a [global] section"));
        let followed_by_none = read("[a]\nsize=1m\n[global]\nbs=4k\n").unwrap().notes;
        assert!(followed_by_none[0].starts_with("job.fio:4: a [global] section without"));
    }
}
