//! Page cache look-ups, compared with reads of a known number of pages.

use std::fs;

use iosonde_model::record::ProfileRun;
use iosonde_rig::skip;
use rustix::fs::{Advice, fadvise};

use super::{disk, has, profile};
use crate::request::turn;

const PAGES: u64 = 2000;

#[test]
fn pages_that_reads_look_up_and_those_that_they_bring_in_are_counted() {
    let _turn = turn();
    let Some(mount) = has("dd").then(disk).flatten() else { return };
    let page = rustix::param::page_size() as u64;
    let file = mount.path().join("file");
    fs::write(&file, vec![1; (PAGES * page) as usize]).unwrap();
    super::settle(&mount);
    // The shell and dd read the same pages at each start, in memory after the first.
    let read = |pages: u64, is_cold: bool| -> Option<(u64, u64)> {
        if is_cold {
            fadvise(fs::File::open(&file).unwrap(), 0, None, Advice::DontNeed).unwrap();
        }
        let script = format!("dd if=file of=/dev/null bs={page} count={pages}; exit");
        looked_up(&profile(mount.device(), mount.path(), &script).seen()?)
    };
    let Some(_) = read(0, false) else { return };
    let (start, _) = read(0, false).unwrap();
    let (cold, brought_in) = read(PAGES, true).unwrap();
    assert_eq!(cold, start + PAGES);
    // Other programs may meanwhile have evicted pages of dd itself.
    assert!((PAGES..PAGES + 50).contains(&brought_in), "{brought_in}");
    let (warm, brought_in) = read(PAGES, false).unwrap();
    assert_eq!(warm, start + PAGES);
    assert!(brought_in < 50, "{brought_in}");
    // Pages added for writing are not misses.
    let script = format!("dd if=/dev/zero of=new bs={page} count={PAGES}; exit");
    let run = profile(mount.device(), mount.path(), &script).seen().unwrap();
    let (written, brought_in) = looked_up(&run).unwrap();
    assert!(written < start + 50 && brought_in < 50, "{written} against {start}, {brought_in}");
}

/// Pages looked up and read; `None`, with the reason, if this kernel does not report them.
fn looked_up(run: &ProfileRun) -> Option<(u64, u64)> {
    let Some(cache) = run.page_cache else {
        skip(format!("the page cache is not seen here: {:?}", run.source.missing));
        return None;
    };
    assert_eq!(cache.page_bytes, rustix::param::page_size() as u64);
    Some((cache.looked_up_pages, cache.brought_in_pages))
}
