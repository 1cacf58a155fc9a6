//! The options of fio's command line as sections of a job file: options before the first `--name`
//! are global, and each `--name` opens a section.

use super::lex::{Line, Section};
use super::{Place, table};

/// The name in messages that replaces a file name.
const COMMAND_LINE: &str = "command line";

/// One option of a job, as given on the command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Word {
    /// Name, without the hyphens before it.
    pub name: String,
    /// The text after the equals sign, or the next word.
    pub value: Option<String>,
}

/// fio's name of an option; hyphens may replace underscores.
pub fn canonical(name: &str) -> String {
    let name = if table::find(name).is_ok() { name.into() } else { name.replace('-', "_") };
    table::find(&name).map_or(name, |entry| entry.name.into())
}

/// The equivalent sections of a job file.
pub fn sections(words: &[Word]) -> Vec<Section> {
    let place = Place::new(COMMAND_LINE, 0);
    let mut sections: Vec<Section> = Vec::new();
    let open = |name: &str| Section { name: name.into(), place: place.clone(), lines: Vec::new() };
    for word in words {
        let key = canonical(&word.name);
        if key == "name" {
            sections.push(open(word.value.as_deref().unwrap_or("")));
            continue;
        }
        if sections.is_empty() {
            sections.push(open("global"));
        }
        if let Some(section) = sections.last_mut() {
            let value = word.value.clone();
            section.lines.push(Line { place: place.within(&section.name), key, value });
        }
    }
    sections
}

/// The equivalent fio command line.
pub fn words(sections: &[Section]) -> String {
    let mut words = vec!["fio".to_string()];
    for section in sections {
        if section.name != "global" {
            words.push(format!("--name={}", section.name));
        }
        words.extend(section.lines.iter().map(|line| match &line.value {
            Some(value) => format!("--{}={value}", line.key),
            None => format!("--{}", line.key),
        }));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Word {
        let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
        Word { name: name.into(), value: value.map(str::to_string) }
    }

    #[test]
    fn what_stands_before_the_first_name_is_global() {
        let given = ["direct", "blocksize=4k", "name=a", "rw=read", "name=global", "size=1m"];
        let found = sections(&given.map(word));
        let names: Vec<&str> = found.iter().map(|section| section.name.as_str()).collect();
        assert_eq!(names, ["global", "a", "global"]);
        assert_eq!(words(&found), "fio --direct --bs=4k --name=a --rw=read --size=1m");
        assert!(sections(&[]).is_empty());
    }

    #[test]
    fn hyphens_stand_for_underscores() {
        assert_eq!(canonical("time-based"), "time_based");
        assert_eq!(canonical("hugepage-size"), "hugepage-size");
        assert_eq!(canonical("no-such"), "no_such");
    }
}
