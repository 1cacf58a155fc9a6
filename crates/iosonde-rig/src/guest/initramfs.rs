//! The guest's root file system: busybox, programs with their libraries, modules, and [`INIT`].

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::kernel::Kernel;
use crate::ScratchDir;

const INIT: &str = include_str!("init.sh");
const DIRECTORIES: [&str; 9] = ["bin", "dev", "etc", "lib", "lib64", "proc", "run", "sys", "tmp"];

/// Writes the initramfs archive.
pub(super) fn build(
    archive: &Path,
    kernel: &Kernel,
    programs: &[PathBuf],
    modules: &[String],
) -> io::Result<()> {
    let tree = ScratchDir::new()?;
    let root = tree.path();
    for directory in DIRECTORIES {
        fs::create_dir(root.join(directory))?;
    }
    let mut order = Vec::new();
    for module in modules {
        for file in kernel.files_of(module)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !order.contains(&name) {
                fs::copy(&file, root.join("lib").join(&name))?;
                order.push(name);
            }
        }
    }
    fs::write(root.join("etc/modules"), order.join("\n") + "\n")?;
    for program in programs {
        bring(root, program)?;
    }
    fs::write(root.join("init"), INIT)?;
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
    // Not compressed: unpacking in the guest would take longer than loading the larger archive.
    let made = Command::new("/bin/sh")
        .args(["-c", "find . | cpio --create --format=newc --quiet"])
        .current_dir(root)
        .stdout(fs::File::create(archive)?)
        .status()?;
    if made.success() { Ok(()) } else { Err(io::Error::other(format!("cpio: {made}"))) }
}

/// Copies a program into `bin`, and its libraries to the paths where the loader expects them.
fn bring(root: &Path, program: &Path) -> io::Result<()> {
    let name = program.file_name().ok_or_else(|| io::Error::other("a program without a name"))?;
    fs::copy(program, root.join("bin").join(name))?;
    // A static program has no libraries; ldd then fails, which is ignored.
    let libraries = Command::new("ldd").arg(program).stderr(Stdio::null()).output()?;
    for word in String::from_utf8_lossy(&libraries.stdout).split_whitespace() {
        let Some(inside) = word.strip_prefix('/') else { continue };
        let to = root.join(inside);
        if !to.exists() {
            fs::create_dir_all(to.parent().unwrap_or(root))?;
            fs::copy(word, to)?;
        }
    }
    Ok(())
}
