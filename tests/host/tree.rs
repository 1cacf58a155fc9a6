//! Unpacks a recorded machine (`tests/fixtures/host/*.tree`) into a temporary directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use iosonde_engine::host::Root;

/// An unpacked tree, removed on drop.
pub(crate) struct Tree {
    directory: PathBuf,
}

impl Tree {
    /// The recorded machine with this name.
    pub(crate) fn named(name: &str) -> Self {
        let file = format!("{}/tests/fixtures/host/{name}.tree", env!("CARGO_MANIFEST_DIR"));
        Self::of(&fs::read_to_string(file).unwrap())
    }

    /// A tree from text in the test itself.
    pub(crate) fn of(text: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("iosonde-tree-{}-{number}", process::id());
        let tree = Self { directory: std::env::temp_dir().join(name) };
        fs::create_dir(&tree.directory).unwrap();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some((path, target)) = line.split_once(" -> ") {
                symlink(target, tree.place(path)).unwrap();
            } else if let Some((path, value)) = line.split_once(" = ") {
                fs::write(tree.place(path), bytes(value)).unwrap();
            } else if let Some(path) = line.strip_suffix(" <<") {
                let content: Vec<&str> = lines.by_ref().take_while(|line| *line != ">>").collect();
                fs::write(tree.place(path), content.join("\n") + "\n").unwrap();
            } else {
                panic!("not a line of a tree: {line}");
            }
        }
        tree
    }

    pub(crate) fn root(&self) -> Root {
        Root::at(&self.directory)
    }

    /// All files of the tree.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let (mut files, mut directories) = (Vec::new(), vec![self.directory.clone()]);
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                match path.symlink_metadata().unwrap().file_type() {
                    kind if kind.is_dir() => directories.push(path),
                    kind if kind.is_file() => files.push(path),
                    _ => {}
                }
            }
        }
        files.sort();
        files
    }

    fn place(&self, path: &str) -> PathBuf {
        let place = self.directory.join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap_or(Path::new("/"))).unwrap();
        place
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Decodes `\x00`-style escapes; a line feed ends the value, as in the kernel's files.
fn bytes(value: &str) -> Vec<u8> {
    let mut parts = value.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes.push(b'\n');
    bytes
}
