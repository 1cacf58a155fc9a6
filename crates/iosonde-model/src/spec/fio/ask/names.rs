//! The names of a job's files, formed as in fio.

use super::super::Fault;
use super::super::job::FioJob;

/// fio's default name format.
const FORMAT: &str = "$jobname.$jobnum.$filenum";

/// The files of `filename`, which all copies of a job share; `bare` is for engines without files.
pub(super) fn shared(job: &FioJob, bare: bool) -> Result<Option<Vec<String>>, Fault> {
    let mut paths = match job.text("filename") {
        Some(names) => split(names),
        None if bare => vec!["null".into()],
        None => return Ok(None),
    };
    if let Some(path) = job.text("directory").filter(|_| !bare) {
        let [directory] = split(path).try_into().map_err(|_| {
            job.fault("directory", "several are not supported beside filename; give one")
        })?;
        paths = paths.iter().map(|path| format!("{directory}/{path}")).collect();
    }
    if paths.iter().any(|path| path.is_empty() || path == "-") {
        let what = "expected paths of files or devices, separated by colons";
        return Err(job.fault("filename", what));
    }
    Ok(Some(paths))
}

/// The files of one copy of a job that has no `filename`.
pub(super) fn own(job: &FioJob, clone: u64, files: u64) -> Result<Vec<String>, Fault> {
    let format = job.text("filename_format").unwrap_or(FORMAT);
    let directories = job.text("directory").map(split).unwrap_or_default();
    if directories.iter().any(String::is_empty) {
        return Err(job.fault("directory", "expected directories, separated by colons"));
    }
    let name = |file: u64| {
        let name = format
            .replace("$clientuid", "")
            .replace("$jobname", &job.section)
            .replace("$jobnum", &clone.to_string())
            .replace("$filenum", &file.to_string());
        match directories.get(clone as usize % directories.len().max(1)) {
            Some(directory) => format!("{directory}/{name}"),
            None => name,
        }
    };
    Ok((0..files).map(name).collect())
}

/// Splits paths at colons; `\:` is a colon within a path.
fn split(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_escaped = letter == '\\' && letters.peek() == Some(&':');
        match letter {
            ':' => names.push(String::new()),
            _ => {
                let letter = if is_escaped { letters.next().unwrap_or(':') } else { letter };
                if let Some(name) = names.last_mut() {
                    name.push(letter);
                }
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::super::job::testing::read;
    use super::*;

    fn names(lines: &str, clone: u64) -> Vec<String> {
        let file = read(&format!("[a]\nsize=1m\n{lines}")).unwrap();
        let job = &file.groups[0].jobs[0];
        shared(job, false).unwrap().unwrap_or_else(|| own(job, clone, 2).unwrap())
    }

    #[test]
    fn names_are_those_of_fio() {
        assert_eq!(names("", 1), ["a.1.0", "a.1.1"]);
        assert_eq!(names("directory=/x:/y\n", 1), ["/y/a.1.0", "/y/a.1.1"]);
        assert_eq!(names("filename_format=$jobname-$filenum.img\n", 0), ["a-0.img", "a-1.img"]);
        assert_eq!(names("filename=b:c\\:d\n", 1), ["b", "c:d"]);
        assert_eq!(names("directory=/x\nfilename=b\n", 1), ["/x/b"]);
    }
}
