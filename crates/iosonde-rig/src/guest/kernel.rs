//! The kernel of a guest, and its modules.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Unavailable;

/// Names the directory that holds `boot/vmlinuz-*` and `lib/modules`, instead of the usual ones.
const VARIABLE: &str = "IOSONDE_GUEST_KERNEL";
/// Where `.ci/packages` unpacks a kernel.
const UNPACKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/guest-kernel");

/// A kernel that can be booted.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// The compressed image.
    pub(super) image: PathBuf,
    /// Directory that holds `lib/modules/VERSION`.
    pub(super) root: PathBuf,
    pub(super) version: String,
}

impl Kernel {
    /// The kernel named by the variable, or else the unpacked one, or the installed one.
    pub(super) fn find() -> Result<Self, Unavailable> {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        let usual = [UNPACKED, "/"].map(PathBuf::from);
        let places = named.map_or(usual.to_vec(), |named| vec![named]);
        let found = places.iter().find_map(|root| Self::below(root));
        found.ok_or_else(|| {
            let places: Vec<_> = places.iter().map(|root| root.display().to_string()).collect();
            Unavailable::new(format!(
                "no kernel for a guest: no boot/vmlinuz-* with its lib/modules in {}; \
                 `.ci/packages` unpacks one, and {VARIABLE} names another",
                places.join(" or ")
            ))
        })
    }

    fn below(root: &Path) -> Option<Self> {
        let mut versions: Vec<String> = fs::read_dir(root.join("lib/modules"))
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        versions.sort();
        versions.into_iter().rev().find_map(|version| {
            let image = root.join(format!("boot/vmlinuz-{version}"));
            let known = root.join("lib/modules").join(&version).join("modules.dep.bin");
            let readable = fs::File::open(&image).is_ok() && known.exists();
            readable.then(|| Self { image, root: root.to_owned(), version })
        })
    }

    /// Files of a module and of its dependencies, in load order. Empty if it is built in.
    pub(super) fn files_of(&self, module: &str) -> io::Result<Vec<PathBuf>> {
        let mut modprobe = Command::new(super::program("modprobe").map_err(io::Error::other)?);
        modprobe.args(["--set-version", &self.version, "--show-depends", module]);
        let output = modprobe.arg("--dirname").arg(&self.root).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(io::Error::other(format!("module {module}: {said}")));
        }
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let files = lines.lines().filter_map(|line| line.strip_prefix("insmod "));
        Ok(files.filter_map(|rest| rest.split(' ').next()).map(PathBuf::from).collect())
    }
}
