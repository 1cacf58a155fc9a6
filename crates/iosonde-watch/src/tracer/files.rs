//! Files: those in the kernel's table, and those removed from it to make space.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use iosonde_bpf::layout::{FILE_NAMED, FILE_PLACES};
use iosonde_bpf::{Collector, FileKey, FileUse};

use super::times::Sums;

/// Largest number of files kept individually. Beyond it, the half with fewer bytes is summed up.
const KEPT: usize = 16_384;
/// Number of files in the kernel's table from which it is emptied.
const CROWDED: u32 = FILE_PLACES / 2;

/// Counts of a file, and the latencies of its requests.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) counts: FileUse,
    pub(super) times: Sums,
}

impl Done {
    pub(super) fn none() -> Done {
        Done { counts: FileUse::NONE, times: Sums::default() }
    }

    fn at(place: u32, collector: &Collector) -> Result<Done, String> {
        let times = Sums::of(&collector.file_times(place)?);
        Ok(Done { counts: collector.file(place)?, times })
    }

    /// The counts at a place, with current names if the kernel still has the file.
    fn of(key: &FileKey, place: u32, collector: &Collector) -> Result<Done, String> {
        if key.kind == FILE_NAMED {
            // On an error the names of the first request stay.
            let _ = collector.read_names_again(key, place);
        }
        Done::at(place, collector)
    }

    pub(super) fn add(&mut self, more: &Done) {
        add(&mut self.counts, &more.counts);
        self.times.add(&more.times);
    }
}

/// Files by name, most bytes first. Files of one name are merged: a journal may be created and
/// deleted repeatedly.
pub(super) fn by_name(
    files: Vec<(FileKey, Done)>,
    mut name: impl FnMut(&FileKey, &Done) -> String,
) -> Vec<(String, FileKey, Done)> {
    let mut named: BTreeMap<(String, u32), (FileKey, Done)> = BTreeMap::new();
    for (key, file) in files {
        match named.entry((name(&key, &file), key.device)) {
            Entry::Occupied(known) => known.into_mut().1.add(&file),
            Entry::Vacant(new) => _ = new.insert((key, file)),
        }
    }
    let named = named.into_iter().map(|((name, _), (key, file))| (name, key, file));
    let mut named: Vec<_> = named.collect();
    named.sort_by_key(|(_, key, file)| (std::cmp::Reverse(weight(&file.counts)), *key));
    named
}

/// Files that are no longer in the kernel's table.
#[derive(Debug)]
pub(super) struct Files {
    kept: BTreeMap<FileKey, Done>,
    /// Sum of the files that are not kept.
    rest: Done,
    /// Removed at the last reading, with their places. Requests in flight then are counted since.
    leaving: Vec<(FileKey, u32)>,
}

impl Files {
    pub(super) fn new() -> Files {
        Files { kept: BTreeMap::new(), rest: Done::none(), leaving: Vec::new() }
    }

    /// Makes space in the kernel's table if it is nearly full.
    pub(super) fn harvest(&mut self, collector: &mut Collector) -> Result<(), String> {
        let places = self.collect(collector)?;
        collector.free_files(&places)?;
        if collector.file_places()? < CROWDED {
            return Ok(());
        }
        let files = collector.files()?;
        if files.len() < CROWDED as usize {
            return Ok(());
        }
        let keys: Vec<FileKey> = files.iter().map(|(key, _)| *key).collect();
        self.leaving = files.into_iter().map(|(key, place)| (key, place.place)).collect();
        collector.forget_files(&keys)
    }

    /// Adds the counts of removed files; returns their places, which can be freed.
    fn collect(&mut self, collector: &Collector) -> Result<Vec<u32>, String> {
        let mut places = Vec::new();
        for (key, place) in std::mem::take(&mut self.leaving) {
            self.add(key, Done::of(&key, place, collector)?);
            places.push(place);
        }
        Ok(places)
    }

    fn add(&mut self, key: FileKey, more: Done) {
        if more.counts.reads + more.counts.writes == 0 {
            return;
        }
        self.kept.entry(key).and_modify(|sum| sum.add(&more)).or_insert(more);
        if self.kept.len() <= KEPT {
            return;
        }
        let mut weights: Vec<u64> = self.kept.values().map(|file| weight(&file.counts)).collect();
        weights.sort_unstable();
        let middle = weights[weights.len() / 2];
        let rest = &mut self.rest;
        self.kept.retain(|_, file| {
            let stays = weight(&file.counts) > middle;
            if !stays {
                rest.add(file);
            }
            stays
        });
    }

    /// Counts so far of every file that is kept or in the kernel's table.
    pub(super) fn so_far(
        &self,
        collector: &Collector,
    ) -> Result<BTreeMap<FileKey, FileUse>, String> {
        let kept = self.kept.iter().map(|(key, file)| (*key, file.counts));
        let mut files: BTreeMap<FileKey, FileUse> = kept.collect();
        for (key, place) in collector.files()? {
            let more = collector.file(place.place)?;
            files.entry(key).and_modify(|sum| add(sum, &more)).or_insert(more);
        }
        Ok(files)
    }

    /// Every file with traffic, and the sum of those not kept.
    pub(super) fn finish(
        mut self,
        collector: &Collector,
    ) -> Result<(Vec<(FileKey, Done)>, Done), String> {
        self.collect(collector)?;
        for (key, place) in collector.files()? {
            self.add(key, Done::of(&key, place.place, collector)?);
        }
        self.rest.add(&Done::at(0, collector)?);
        Ok((self.kept.into_iter().collect(), self.rest))
    }
}

/// Bytes read and written.
fn weight(file: &FileUse) -> u64 {
    file.read() + file.written()
}

/// Adds `more` to `sum`, and keeps the newest names.
fn add(sum: &mut FileUse, more: &FileUse) {
    sum.reads += more.reads;
    sum.writes += more.writes;
    for way in 0..2 {
        sum.read_bytes[way] += more.read_bytes[way];
        sum.write_bytes[way] += more.write_bytes[way];
    }
    sum.write_back_bytes += more.write_back_bytes;
    sum.sequential += more.sequential;
    if more.names > 0 {
        (sum.names, sum.is_whole, sum.name) = (more.names, more.is_whole, more.name);
    }
}

#[cfg(test)]
mod tests {
    use iosonde_bpf::Times;

    use super::*;

    fn written(bytes: u64) -> Done {
        let counts = FileUse { writes: 1, write_bytes: [bytes, 0], ..FileUse::NONE };
        let mut times = Times::NONE;
        times.time[1][3] = 1;
        Done { counts, times: Sums::of(&times) }
    }

    fn key(inode: u64) -> FileKey {
        FileKey { inode, ..FileKey::default() }
    }

    #[test]
    fn files_of_one_name_are_one_and_the_heaviest_is_first() {
        let files = vec![(key(1), written(50)), (key(2), written(40)), (key(3), written(20))];
        let name = |key: &FileKey| if key.inode == 1 { "db" } else { "db-journal (deleted)" };
        let named = by_name(files, |key, _| name(key).to_owned());
        let seen = named.iter().map(|(name, _, file)| (name.as_str(), file.counts.written()));
        let expected = [("db-journal (deleted)", 60), ("db", 50)];
        assert_eq!(seen.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_heaviest_files_stay_and_no_byte_is_lost() {
        let mut files = Files::new();
        let many = KEPT as u64 * 3;
        // The largest file first, then files of increasing size.
        files.add(key(many), written(1 << 30));
        (0..many).for_each(|inode| files.add(key(inode), written(inode + 1)));
        assert!(files.kept.len() <= KEPT, "{}", files.kept.len());
        assert!(files.kept.contains_key(&key(many)) && files.kept.contains_key(&key(many - 1)));
        let all: u64 =
            files.kept.values().chain([&files.rest]).map(|file| weight(&file.counts)).sum();
        assert_eq!(all, (1 << 30) + many * (many + 1) / 2);
        let all: u64 =
            files.kept.values().chain([&files.rest]).map(|file| file.times.count()).sum();
        assert_eq!(all, many + 1);
    }

    #[test]
    fn one_that_comes_back_is_the_same_file_and_a_reused_number_is_not() {
        let mut files = Files::new();
        files.add(key(7), written(10));
        files.add(key(7), written(5));
        files.add(FileKey { generation: 1, ..key(7) }, written(3));
        let bytes: Vec<u64> = files.kept.values().map(|file| weight(&file.counts)).collect();
        assert_eq!(bytes, [15, 3]);
    }
}
