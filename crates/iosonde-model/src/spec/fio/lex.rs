//! Lines and sections: comments, includes, environment variables and fio's keywords. Each option
//! keeps the text of its value and its place.

use super::{Fault, Faults, Place, expression, shown};

/// Largest job file with its includes, bytes.
pub const MAX_BYTES: usize = 64 << 20;
/// Longest line, bytes.
pub const MAX_LINE_BYTES: usize = 64 << 10;
/// Most sections.
pub const MAX_SECTIONS: usize = 4096;
/// Most option lines.
const MAX_OPTIONS: usize = 1 << 16;
/// Deepest nesting of includes.
pub const MAX_DEPTH: usize = 8;

/// Looks up an environment variable.
pub type Environment = dyn Fn(&str) -> Option<String>;

/// Access to the outside world, passed in by the caller.
pub struct Outside<'a> {
    /// Returns the text of an included file, named relative to the job file's directory.
    pub load: &'a mut dyn FnMut(&str) -> Result<String, String>,
    /// Looks up an environment variable; `None` if variables are not read.
    pub env: Option<&'a Environment>,
    /// Value of `$pagesize`, bytes.
    pub page_bytes: u64,
    /// Value of `$mb_memory`, MiB.
    pub memory_mib: u64,
    /// Value of `$ncpus`.
    pub cpus: u64,
}

/// One option as written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
    pub place: Place,
    /// Name as written.
    pub key: String,
    /// The text after the equals sign, if any.
    pub value: Option<String>,
}

/// A section with its options, with included ones inserted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Section {
    /// The text in the brackets.
    pub name: String,
    /// Where it begins.
    pub place: Place,
    /// Its options in order.
    pub lines: Vec<Line>,
}

/// Splits a job file into its sections.
///
/// # Errors
/// The first fault: text outside a section, an unclosed section, an include that is forbidden or
/// unreadable, a forbidden variable, or an exceeded limit.
pub fn sections(text: &str, file: &str, outside: &mut Outside<'_>) -> Result<Vec<Section>, Faults> {
    let mut reader = Reader { outside, sections: Vec::new(), bytes: 0, options: 0 };
    reader.read(text, file, "", 0)?;
    Ok(reader.sections)
}

struct Reader<'a, 'b> {
    outside: &'a mut Outside<'b>,
    sections: Vec<Section>,
    bytes: usize,
    options: usize,
}

impl Reader<'_, '_> {
    /// Reads one file; `folder`, relative to the job file's directory, is the base of its includes.
    fn read(&mut self, text: &str, file: &str, folder: &str, depth: usize) -> Result<(), Fault> {
        let start = Place::new(file, 0);
        self.bytes += text.len();
        if self.bytes > MAX_BYTES {
            return Err(Fault::new(&start, "the job file is larger than 64 MiB with its includes"));
        }
        if text.contains('\0') {
            return Err(Fault::new(&start, "found a zero byte, expected text"));
        }
        for (index, raw) in text.lines().enumerate() {
            let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
            let place = Place { line, ..start.clone() };
            if raw.len() > MAX_LINE_BYTES {
                return Err(Fault::new(&place, "the line is longer than 64 KiB"));
            }
            let said = without_comment(raw);
            if said.is_empty() {
                continue;
            }
            if let Some(rest) = said.strip_prefix('[') {
                self.open(rest, &place, depth)?;
            } else if let Some(name) = included(said) {
                self.include(name, &place, folder, depth)?;
            } else {
                self.option(said, place)?;
            }
        }
        Ok(())
    }

    fn open(&mut self, rest: &str, place: &Place, depth: usize) -> Result<(), Fault> {
        if depth > 0 {
            return Err(Fault::new(
                place,
                "a section begins in an included file: only options may",
            ));
        }
        let Some(name) = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty())
        else {
            let what = format!("found `[{}`, expected a section `[name]`", shown(rest));
            return Err(Fault::new(place, what));
        };
        if name.starts_with("global") && name != "global" {
            let what = format!(
                "[{}]: fio reads every section that begins with `global` as [global]; \
                 write [global], or give the job another name",
                shown(name)
            );
            return Err(Fault::new(place, what));
        }
        if self.sections.len() == MAX_SECTIONS {
            return Err(Fault::new(place, format!("more than {MAX_SECTIONS} sections")));
        }
        let section = Section { name: name.into(), place: place.clone(), lines: Vec::new() };
        self.sections.push(section);
        Ok(())
    }

    fn include(
        &mut self,
        name: &str,
        place: &Place,
        folder: &str,
        depth: usize,
    ) -> Result<(), Fault> {
        if self.sections.is_empty() {
            return Err(Fault::new(place, "include: is outside of a section"));
        }
        if depth == MAX_DEPTH {
            let what = format!("include: more than {MAX_DEPTH} files within each other");
            return Err(Fault::new(place, what));
        }
        let name = self.substituted(name, place)?;
        let steps_out = name.split('/').any(|part| part == "..");
        if name.is_empty() || name.starts_with('/') || steps_out {
            let what = format!(
                "include: found `{}`, expected a file in the job file's directory or below it",
                shown(&name)
            );
            return Err(Fault::new(place, what));
        }
        let path = format!("{folder}{name}");
        let text = (self.outside.load)(&path).map_err(|error| {
            Fault::new(place, format!("include: `{}` cannot be read: {error}", shown(&path)))
        })?;
        let inner = path.rfind('/').map_or("", |at| &path[..=at]);
        self.read(&text, &path, inner, depth + 1)
    }

    fn option(&mut self, said: &str, place: Place) -> Result<(), Fault> {
        if self.sections.is_empty() {
            let what = format!("`{}` is outside of a section", shown(said));
            return Err(Fault::new(&place, what));
        }
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return Err(Fault::new(&place, format!("more than {MAX_OPTIONS} options")));
        }
        let place = self.sections.last().map_or(place.clone(), |own| place.within(&own.name));
        let (key, value) = match said.split_once('=') {
            Some((key, value)) => (key.trim(), Some(self.substituted(value.trim(), &place)?)),
            None => (said, None),
        };
        let line = Line { place, key: key.into(), value };
        if let Some(section) = self.sections.last_mut() {
            section.lines.push(line);
        }
        Ok(())
    }

    /// Replaces `${NAME}` and fio's keywords; evaluates an expression that contains a keyword.
    fn substituted(&self, text: &str, place: &Place) -> Result<String, Fault> {
        let text = self.with_environment(text, place)?;
        let keywords = [
            ("$pagesize", self.outside.page_bytes),
            ("$mb_memory", self.outside.memory_mib),
            ("$ncpus", self.outside.cpus),
        ];
        if !keywords.iter().any(|(word, _)| text.contains(word)) {
            return Ok(text);
        }
        let plain = keywords
            .iter()
            .fold(text, |text, (word, number)| text.replace(word, &number.to_string()));
        if plain.len() > MAX_LINE_BYTES {
            return Err(Fault::new(place, "the line is longer than 64 KiB"));
        }
        if !plain.contains(['+', '-', '*', '/']) {
            return Ok(plain);
        }
        let sum = expression::evaluate(&plain, None)
            .map_err(|what| Fault::new(place, format!("`{}`: {what}", shown(&plain))))?;
        Ok(sum.whole.to_string())
    }

    fn with_environment(&self, text: &str, place: &Place) -> Result<String, Fault> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, behind)) = after.split_once('}') else { break };
            let Some(look_up) = self.outside.env else {
                let what = format!(
                    "found `${{{}}}`: variables of the environment are not read here",
                    shown(name)
                );
                return Err(Fault::new(place, what));
            };
            out.push_str(before);
            // An unset variable is empty, as in fio and in a shell.
            out.push_str(&look_up(name).unwrap_or_default());
            if out.len() > MAX_LINE_BYTES {
                return Err(Fault::new(place, "the line is longer than 64 KiB"));
            }
            rest = behind;
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// The line without a comment (`;` or `#`) and surrounding whitespace.
fn without_comment(line: &str) -> &str {
    let end = line.find([';', '#']).unwrap_or(line.len());
    line[..end].trim()
}

/// The name of an included file, if the line includes one.
fn included(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("include")?;
    rest.starts_with(char::is_whitespace).then(|| rest.trim())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn read(text: &str, files: &[(&str, &str)]) -> Result<Vec<Section>, String> {
        let mut load = |name: &str| {
            let found = files.iter().find(|(file, _)| *file == name);
            found.map(|(_, text)| (*text).to_string()).ok_or("no such file".to_string())
        };
        let env = |name: &str| (name == "DISK").then(|| "/dev/null".to_string());
        let mut outside = Outside {
            load: &mut load,
            env: Some(&env),
            page_bytes: 4096,
            memory_mib: 1000,
            cpus: 3,
        };
        sections(text, "job.fio", &mut outside).map_err(|faults| faults.to_string())
    }

    fn options(section: &Section) -> Vec<(u32, &str, Option<&str>)> {
        let each = section.lines.iter();
        each.map(|line| (line.place.line, line.key.as_str(), line.value.as_deref())).collect()
    }

    #[test]
    fn sections_comments_and_bare_keys() {
        let text = "; head\n\n[global] # all\n bs = 4k ; small\ntime_based\n#rw=read\n\
                    [a]b c!]\nrw=randread#x\r\nfilename=a=b\n";
        let found = read(text, &[]).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "global");
        assert_eq!(options(&found[0]), [(4, "bs", Some("4k")), (5, "time_based", None)]);
        assert_eq!(found[1].name, "a]b c!");
        assert_eq!(found[1].place.line, 7);
        assert_eq!(options(&found[1]), [(8, "rw", Some("randread")), (9, "filename", Some("a=b"))]);
    }

    #[test]
    fn included_options_stand_in_their_place_with_their_own_lines() {
        let files = [("inc/a.fio", "bs=8k\ninclude b.fio\n"), ("inc/b.fio", "\nrw=write\n")];
        let found = read("[x]\nsize=1m\ninclude inc/a.fio\ndirect\n", &files).unwrap();
        let places: Vec<String> =
            found[0].lines.iter().map(|line| format!("{} {}", line.place, line.key)).collect();
        assert_eq!(
            places,
            [
                "job.fio:2: [x] size",
                "inc/a.fio:1: [x] bs",
                "inc/b.fio:2: [x] rw",
                "job.fio:4: [x] direct"
            ]
        );
    }

    #[test]
    fn variables_and_keywords() {
        let text =
            "[x]\nfilename=${DISK}:${NONE}b\nsize=$mb_memory*2\nbs=$pagesize\nnumjobs=$ncpus\n";
        let found = read(text, &[]).unwrap();
        let values: Vec<&str> =
            found[0].lines.iter().map(|line| line.value.as_deref().unwrap()).collect();
        assert_eq!(values, ["/dev/null:b", "2000", "4096", "3"]);
    }

    #[test]
    fn what_is_refused_is_named_with_its_line() {
        let endless = [("a.fio", "include a.fio\n")];
        let section = [("b.fio", "[other]\n")];
        let many = "[a]\n".repeat(MAX_SECTIONS + 1);
        let long = format!("[a]\nname={}\n", "x".repeat(MAX_LINE_BYTES));
        for (text, files, expected) in [
            ("rw=read\n", &[][..], "job.fio:1: `rw=read` is outside of a section"),
            ("[a\n", &[], "job.fio:1: found `[a`, expected a section `[name]`"),
            ("[]\n", &[], "job.fio:1: found `[]`, expected a section `[name]`"),
            ("[globals]\n", &[], "job.fio:1: [globals]: fio reads every section"),
            ("[a]\ninclude /etc/passwd\n", &[], "job.fio:2: include: found `/etc/passwd`"),
            ("[a]\ninclude ../b.fio\n", &[], "job.fio:2: include: found `../b.fio`"),
            ("[a]\ninclude b.fio\n", &[], "job.fio:2: include: `b.fio` cannot be read: no such"),
            ("[a]\ninclude b.fio\n", &section, "b.fio:1: a section begins in an included file"),
            ("[a]\ninclude a.fio\n", &endless, "a.fio:1: include: more than 8 files within"),
            ("[a]\nsize=$ncpus*x\n", &[], "job.fio:2: [a] `3*x`: "),
            (&many, &[], "job.fio:4097: more than 4096 sections"),
            (&long, &[], "job.fio:2: the line is longer than 64 KiB"),
            ("[a]\n\0", &[], "job.fio: found a zero byte"),
        ] {
            let error = read(text, files).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn without_leave_the_environment_is_not_read() {
        let mut outside = Outside {
            load: &mut |_| Err("none".into()),
            env: None,
            page_bytes: 4096,
            memory_mib: 1,
            cpus: 1,
        };
        let error = sections("[a]\nfilename=${HOME}/x\n", "j", &mut outside).unwrap_err();
        assert!(error.to_string().starts_with("j:2: [a] found `${HOME}`"), "{error}");
    }
}
