//! Every option of fio and its support. To support another one, move it to another family here and
//! read it in `ask` or `load`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::foreign;
use super::job::Setting;
use super::number::TimeUnit;
use super::shown;
use super::value::Kind;
use crate::units::count;

/// The support of an option.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stand {
    /// The option has the same meaning as in fio.
    Supported,
    /// The option does not change the load, and its request is always met, for this reason; its
    /// value is checked but unused.
    Harmless(&'static str),
    /// The option does not change the load and has no effect, for this reason; a note says so
    /// unless it has one of these values.
    Lost(&'static [&'static str], &'static str),
    /// Supported only with one of these values; the reason why no other is.
    Only(&'static [&'static str], &'static str),
    /// Not supported, for this reason.
    Refused(&'static str),
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// fio's name for it.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Kind,
    pub stand: Stand,
}

impl Entry {
    /// `same`, `noted`, `partly` or `refused`, with the reason.
    pub fn standing(&self) -> (&'static str, String) {
        match self.stand {
            Stand::Supported => ("same", String::new()),
            Stand::Harmless(why) => ("same", why.into()),
            Stand::Lost(_, why) => ("noted", why.into()),
            Stand::Only(values, why) => {
                ("partly", format!("{}; otherwise refused: {why}", values.join(", ")))
            }
            Stand::Refused(why) => ("refused", why.into()),
        }
    }

    /// Whether its effect is lost with this value; `None` is a switch that is on.
    pub(super) fn is_lost(&self, text: Option<&str>) -> bool {
        let value = text.unwrap_or("1");
        matches!(self.stand, Stand::Lost(values, _) if !values.contains(&value))
    }

    /// A line on its support.
    pub fn line(&self) -> String {
        let (word, why) = self.standing();
        format!("{:<32} {:<8} {why}", self.name, word).trim_end().to_string() + "\n"
    }
}

/// A line with the number of options by support.
pub fn summary() -> String {
    let count = |word: &str| entries().filter(|entry| entry.standing().0 == word).count();
    let words = ["same", "noted", "partly", "refused"];
    let counts: Vec<String> = words.iter().map(|word| format!("{} {word}", count(word))).collect();
    format!("{} options of fio: {}\n", entries().count(), counts.join(", "))
}

/// Options with the same support and type: support, type, names.
pub(super) type Family = (Stand, Kind, &'static str);

const PROGRAM: &str = "it runs a program, which a job file may not do here";
const ZBD: &str = "zoned devices are not supported; zonemode=strided, or \
                   random_distribution=zoned, divides a conventional one";
const SYSTEM: &str = "it changes the system or the process, which a job file may not do here";
const LAYOUT: &str = "creation of the test file, not the load";
const TELLING: &str = "reporting of the run, not the load";
const TIMING: &str = "every operation is timed here, at less cost";
const IN_ONE: &str =
    "the share of valid blocks falls with age from one to the next, not by regions";
const LATER: &str = "a block is written again late in the pass, not while a cache still has it";
const OFF: &[&str] = &["0"];
const ON: &[&str] = &["1"];

const RW: Kind = Kind::Word(&[
    "read",
    "write",
    "trim",
    "randread",
    "randwrite",
    "randtrim",
    "rw",
    "readwrite",
    "randrw",
    "randreadwrite",
    "trimwrite",
    "randtrimwrite",
]);
const DISTRIBUTION: Kind =
    Kind::Word(&["random", "zipf", "pareto", "normal", "zoned", "zoned_abs", "sequence"]);
const HINT: Kind = Kind::Word(&["1", "0", "none", "random", "sequential", "noreuse"]);
const CONTINUE: Kind = Kind::Word(&["none", "read", "write", "io", "verify", "all", "0", "1"]);
const MEMORY: Kind = Kind::Word(&["malloc", "shm", "shmhuge", "mmap", "mmapshared", "mmaphuge"]);
const VERIFIED: &str = "every byte is compared with what was written, after the writes";
const VERIFY: Kind = Kind::Word(&[
    "none",
    "0",
    "md5",
    "crc16",
    "crc32",
    "crc32c",
    "crc32c-intel",
    "crc64",
    "crc7",
    "sha256",
    "sha512",
    "sha1",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "xxhash",
    "meta",
    "pattern",
    "pattern_hdr",
    "null",
]);
const SERVICE: Kind =
    Kind::Word(&["random", "zipf", "pareto", "normal", "gauss", "roundrobin", "sequential"]);

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    (Stand::Supported, Kind::Text,
        "name filename directory filename_format ioengine numa_mem_policy cmdprio_bssplit \
         wait_for nice prio prioclass buffer_pattern numa_cpu_nodes ignore_error steadystate \
         verify_pattern read_iolog write_iolog replay_redirect replay_skip description"),
    (Stand::Supported, RW, "rw"),
    (Stand::Supported, DISTRIBUTION, "random_distribution"),
    (Stand::Supported, Kind::Word(&["linear", "poisson"]), "rate_process"),
    (Stand::Supported, Kind::Word(&["none", "0", "sync", "1", "dsync"]), "sync"),
    (Stand::Supported, Kind::Word(&["complete", "issue"]), "thinktime_blocks_type"),
    (Stand::Supported, Kind::Word(&["shared", "split"]), "cpus_allowed_policy"),
    (Stand::Supported, Kind::Word(&["group", "stonewall", "all"]), "exit_what"),
    (Stand::Supported, Kind::Word(&["1024", "1000"]), "kb_base"),
    (Stand::Supported, HINT, "fadvise_hint"),
    (Stand::Supported, Kind::Word(&["repeat", "working_set"]), "dedupe_mode"),
    (Stand::Supported, CONTINUE, "continue_on_error"),
    (Stand::Supported, MEMORY, "mem"),
    (Stand::Supported, Kind::Counts,
        "bs ba rate rate_iops percentage_random cmdprio_percentage cmdprio_class cmdprio \
         cmdprio_hint rate_min rate_iops_min"),
    (Stand::Supported, Kind::Ranges, "bsrange"),
    (Stand::Supported, Kind::Splits, "bssplit"),
    (Stand::Supported, Kind::Size, "size io_size offset offset_increment"),
    (Stand::Supported, Kind::Count,
        "iodepth iodepth_batch iodepth_batch_complete_min iodepth_batch_complete_max number_ios \
         numjobs loops nrfiles fsync fdatasync rwmixread rwmixwrite thinktime_blocks randseed \
         buffer_compress_percentage dedupe_percentage dedupe_working_set_percentage cpumask \
         filesize sqthread_poll_cpu rate_cycle flow flow_id flow_sleep zonesize zonerange \
         zoneskip offset_align iodepth_low log_hist_msec log_hist_coarseness log_avg_msec \
         replay_scale replay_align replay_time_scale"),
    (Stand::Supported, Kind::Time(TimeUnit::Seconds),
        "runtime ramp_time startdelay thinktime_iotime steadystate_duration \
         steadystate_ramp_time steadystate_check_interval"),
    (Stand::Supported, Kind::Time(TimeUnit::Micros),
        "thinktime thinktime_spin max_latency latency_target latency_window"),
    (Stand::Supported, Kind::Switch,
        "time_based norandommap stonewall zero_buffers refill_buffers exitall new_group \
         sqthread_poll fixedbufs registerfiles group_reporting"),
    (Stand::Supported, Kind::Bool,
        "direct buffered randrepeat allrandrepeat scramble_buffers nonvectored hipri unlink \
         invalidate create_only overwrite random_sequence_stride atomic dedupe_global pre_read \
         do_verify verify_only allow_file_create sprandom latency_run per_job_logs \
         log_max_value log_offset log_unix_epoch replay_no_stall clat_percentiles \
         lat_percentiles slat_percentiles"),
    (Stand::Supported, Kind::Cpus, "cpus_allowed"),
    (Stand::Harmless("fio itself reads past it"), Kind::Text, "flow_watermark"),
    (Stand::Supported, Kind::Word(&["sequential", "identical"]), "rw_sequencer"),
    (Stand::Supported, SERVICE, "file_service_type"),
    (Stand::Only(&["none", "strided"], ZBD), Kind::Word(&["none", "strided", "zbd"]), "zonemode"),
    (Stand::Supported, VERIFY, "verify"),
    (Stand::Harmless(VERIFIED), Kind::Name,
        "verify_interval verify_offset verify_async verify_async_cpus verifysort verifysort_nr \
         verify_header_seed verify_policy verify_write_sequence experimental_verify"),
    (Stand::Lost(OFF, "the verification goes on, and counts the blocks that differ"), Kind::Name,
        "verify_fatal"),
    (Stand::Lost(OFF, "blocks that differ are named, not stored"), Kind::Name, "verify_dump"),
    (Stand::Lost(OFF, "the verification follows the writes"), Kind::Name,
        "verify_backlog verify_backlog_batch"),
    (Stand::Lost(&["1"], "no state is needed to verify, and none is stored"), Kind::Name,
        "verify_state_save"),
    (Stand::Lost(OFF, "no state is needed to verify, and all is verified"), Kind::Name,
        "verify_state_load"),
    (Stand::Lost(OFF, "the pattern begins with each block"), Kind::Name,
        "verify_pattern_interval"),
    (Stand::Supported, Kind::Reals, "spr_op latency_percentile percentile_list"),
    (Stand::Lost(&[], IN_ONE), Kind::Count, "spr_num_regions"),
    (Stand::Lost(&[], LATER), Kind::Count, "spr_cs"),
    (Stand::Only(&["avg", "0", "max", "1"], "a log has one value of each interval"),
        Kind::Word(&["avg", "0", "max", "1", "both", "2"]), "log_window_value"),
    (Stand::Harmless("logs are written when the run has ended"), Kind::Text,
        "log_compression log_compression_cpus"),
    (Stand::Lost(OFF, "logs are written as text"), Kind::Text, "log_store_compressed"),
    (Stand::Lost(OFF, "a log with means has no time of a single operation"), Kind::Text,
        "log_issue_time"),
    (Stand::Harmless("files are opened before the run"), Kind::Bool, "create_on_open"),
    (Stand::Lost(&["512", "1k", "2k", "4k", "4K", "4096"], "buffers begin at a page"),
        Kind::Count, "iomem_align"),
    (Stand::Harmless("an order of every block once needs no map of them"), Kind::Switch,
        "softrandommap"),
    (Stand::Lost(&["4k", "4K", "4096"], "compressible parts lie in every 4 KiB"), Kind::Count,
        "buffer_compress_chunk"),
    (Stand::Lost(&["inline"], "each operation is due at its time, whoever submits it"),
        Kind::Text, "io_submit_mode"),
    (Stand::Harmless("reads and writes are drawn one by one"), Kind::Text, "rwmixcycle"),
    // fio itself reads `threads` as an option of one of its profiles and forgets it.
    (Stand::Supported, Kind::Bool, "threads"),
    (Stand::Supported, Kind::Name, "write_bw_log write_lat_log write_iops_log write_hist_log"),
    (Stand::Harmless("the log is read as a whole"), Kind::Bool, "read_iolog_chunked"),

    (Stand::Lost(ON, TELLING), Kind::Bool, "disk_util"),
    (Stand::Lost(OFF, TELLING), Kind::Bool,
        "block_error_percentiles log_prio log_alternate_epoch error_dump"),
    (Stand::Lost(OFF, TELLING), Kind::Count,
        "significant_figures log_alternate_epoch_clock_id job_start_clock_id"),
    (Stand::Lost(&["500"], TELLING), Kind::Count, "bwavgtime iopsavgtime"),
    (Stand::Harmless("a log has room for all its lines"), Kind::Count, "log_entries"),
    (Stand::Lost(&["none", "0"], TELLING), Kind::Word(&["none", "mixed", "both", "0", "1", "2"]),
        "unified_rw_reporting"),
    (Stand::Lost(OFF, TELLING), Kind::Word(&["0", "1", "8"]), "unit_base"),
    (Stand::Lost(OFF, TIMING), Kind::Bool,
        "gtod_reduce disable_lat disable_clat disable_slat disable_bw_measurement"),
    (Stand::Lost(&[], TIMING), Kind::Count, "gtod_cpu"),
    (Stand::Lost(&[], TIMING), Kind::Word(&["gettimeofday", "clock_gettime", "cpu"]),
        "clocksource"),
    (Stand::Lost(ON, LAYOUT), Kind::Bool, "create_serialize create_fsync"),
    (Stand::Lost(&["native", "posix", "1"], LAYOUT),
        Kind::Word(&["none", "native", "posix", "keep", "truncate", "0", "1"]), "fallocate"),
    (Stand::Harmless("the type of a file is detected"),
        Kind::Word(&["none", "file", "block", "char"]), "filetype"),
    (Stand::Harmless("a network client's file names"), Kind::Bool, "unique_filename"),
    (Stand::Harmless("every job is a thread here"), Kind::Switch, "thread"),
    (Stand::Harmless("an error ends every job of the group here"), Kind::Switch,
        "exitall_on_error"),
    (Stand::Harmless("every run with writes ends with a timed fsync, reported separately"),
        Kind::Bool, "end_fsync fsync_on_close end_syncfs"),
    (Stand::Harmless("the order is random whichever generator draws it"),
        Kind::Word(&["tausworthe", "lfsr", "tausworthe64"]), "random_generator"),
    (Stand::Lost(OFF, "all files of a job are open"), Kind::Count, "openfiles"),
    (Stand::Harmless("completions are read in user space where that is possible"),
        Kind::Switch, "userspace_reap"),

    (Stand::Only(OFF, "the file keeps its length"), Kind::Bool, "file_append"),
    (Stand::Only(OFF, "a file system is not filled: give a size, or the block device without one"),
        Kind::Bool, "fill_device"),
    (Stand::Only(OFF, "requests that overlap are not held back"), Kind::Bool, "serialize_overlap"),
    (Stand::Only(OFF, "consent to write is given with --destroy-data or --overwrite-file"),
        Kind::Bool, "allow_mounted_write"),
    (Stand::Only(OFF, "one file serves all loops"), Kind::Bool, "unlink_each_loop"),
    (Stand::Only(ON, "every job is counted"), Kind::Bool, "stats"),
    (Stand::Only(&["none"], "files are not locked"), Kind::Text, "lockfile"),
    (Stand::Only(OFF, "after a pause the job catches up with its rate"), Kind::Bool,
        "rate_ignore_thinktime"),
    (Stand::Only(&["none"], "writes carry no hint"), Kind::Text, "write_hint"),
    (Stand::Only(&["2m", "2097152"], "huge pages are the system's own"), Kind::Count,
        "hugepage-size"),
    (Stand::Only(OFF, "blocks stay on the grid of their size"), Kind::Switch, "bs_unaligned"),
    (Stand::Only(OFF, "memory is not locked"), Kind::Size, "lockmem"),
    (Stand::Only(OFF, "requests have no such flag"), Kind::Switch,
        "uncached nowait readfua force_async thp"),
    (Stand::Only(OFF, "give sync=dsync, whose writes are commands with FUA"), Kind::Switch,
        "writefua"),

    (Stand::Refused(PROGRAM), Kind::Text, "exec_prerun exec_postrun program arguments grace_time \
        std_redirect"),
    (Stand::Refused("blocks are not trimmed between being written and verified"), Kind::Text,
        "trim_percentage trim_verify_zero trim_backlog trim_backlog_batch"),
    (Stand::Refused("traces of blktrace are not read"), Kind::Text,
        "merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters"),
    (Stand::Refused(ZBD), Kind::Text,
        "zonecapacity read_beyond_wp max_open_zones job_max_open_zones \
         ignore_zone_limits zone_reset_threshold zone_reset_frequency recover_zbd_write_error \
         write_zone_remainder"),
    (Stand::Refused(SYSTEM), Kind::Text,
        "ioscheduler cgroup cgroup_nodelete cgroup_weight uid gid priohint"),
    (Stand::Refused("files are named one by one"), Kind::Text, "opendir"),
    (Stand::Refused("it has no part in a run"), Kind::Text,
        "profile write_barrier sync_file_range comm thinkcycles percentage_sequential"),
    (Stand::Only(OFF, "give bs= alone: the first size if the job is sequential, the second if it \
        is random"), Kind::Bool, "bs_is_seq_rand"),
    (Stand::Refused("a warm-up has a length in time; give ramp_time"), Kind::Size, "ramp_size"),
    (Stand::Only(&["100"], "hipri is of every request"), Kind::Count, "hipri_percentage"),
];

/// Aliases of options, with the canonical names.
const ALIASES: &[(&str, &str)] = &[
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("blockalign", "ba"),
    ("blocksize_range", "bsrange"),
    ("blocksize_unaligned", "bs_unaligned"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("iodepth_batch_complete", "iodepth_batch_complete_min"),
    ("io_limit", "io_size"),
    ("fill_fs", "fill_device"),
    ("fileoffset", "offset"),
    ("nr_files", "nrfiles"),
    ("timeout", "runtime"),
    ("iomem", "mem"),
    ("mem_align", "iomem_align"),
    ("ratemin", "rate_min"),
    ("ratecycle", "rate_cycle"),
    ("wait_for_previous", "stonewall"),
    ("disable_bw", "disable_bw_measurement"),
    ("ss", "steadystate"),
    ("ss_dur", "steadystate_duration"),
    ("ss_ramp", "steadystate_ramp_time"),
    ("ss_interval", "steadystate_check_interval"),
    ("chunck_size", "chunk_size"),
    ("single_instance", "single-instance"),
    ("gpu_dev_ids", "gpu_dev_id"),
    ("proto", "protocol"),
    ("data_placement", "dataplacement"),
    ("fdp_pli", "plids"),
    ("fdp_pli_select", "plid_select"),
];

static ENTRIES: LazyLock<BTreeMap<&'static str, Entry>> = LazyLock::new(|| {
    let families = FAMILIES.iter().chain(foreign::FAMILIES).flat_map(|(stand, kind, names)| {
        names.split_whitespace().map(|name| Entry { name, kind: *kind, stand: *stand })
    });
    families.map(|entry| (entry.name, entry)).collect()
});

/// Every option under its canonical name.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    ENTRIES.values()
}

/// The option with this name or alias.
///
/// # Errors
/// If fio has no such option; the message suggests the nearest spelling.
pub fn find(name: &str) -> Result<&'static Entry, String> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, name)| *name);
    ENTRIES.get(alias.unwrap_or(name)).ok_or_else(|| {
        let names = ENTRIES.keys().chain(ALIASES.iter().map(|(alias, _)| alias));
        let meant = count::did_you_mean(&shown(name), names.copied());
        format!("`{}` is not a fio option{meant}", shown(name))
    })
}

/// A note that names the given options whose effect is lost.
pub(super) fn lost<'a>(settings: impl Iterator<Item = &'a Setting>) -> Option<String> {
    let lost = settings.filter(|setting| setting.entry.is_lost(setting.text.as_deref()));
    let names: BTreeSet<&str> = lost.map(|setting| setting.entry.name).collect();
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty()).then(|| {
        let one = names.len() == 1;
        let (has, name) = if one { ("has", names[0]) } else { ("have", "OPTION") };
        format!(
            "{} {has} no effect here, and the load is the same; iosonde run --cmdhelp={name} says \
             why",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::job::testing::read;
    use super::*;

    #[test]
    fn no_option_stands_in_two_families() {
        let names: Vec<&str> = FAMILIES
            .iter()
            .chain(foreign::FAMILIES)
            .flat_map(|(_, _, names)| names.split_whitespace())
            .collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name}");
        }
        for (alias, name) in ALIASES {
            assert!(ENTRIES.contains_key(name) && !ENTRIES.contains_key(alias), "{alias}");
        }
    }

    #[test]
    fn options_whose_effect_is_lost_are_named_in_one_line_of_the_run() {
        let notes = |lines: &str| read(&format!("[a]\nsize=1m\n{lines}")).unwrap().notes;
        for (lines, expected) in [
            (
                "gtod_reduce=1\n[b]\nsize=1m\nclocksource=cpu\ngtod_reduce=1\n",
                "clocksource, gtod_reduce have no effect here",
            ),
            ("verify=md5\nverify_fatal=1\n", "verify_fatal has no effect here"),
            ("disk_util=0\n", "disk_util has no effect here"),
            ("iomem_align=2m\n", "--cmdhelp=iomem_align says why"),
        ] {
            let found = notes(lines);
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
        }
        for lines in [
            "gtod_reduce=0\n",
            "thread\ngroup_reporting\n",
            "disk_util=1\n",
            "iomem_align=4k\n",
            "description=x\n",
            "end_fsync=1\nrw=write\n",
        ] {
            assert!(notes(lines).is_empty(), "{lines}");
        }
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_one() {
        assert!(find("iodept").unwrap_err().contains("did you mean `iodepth`?"));
        assert_eq!(find("blocksize").unwrap().name, "bs");
        assert!(find("qwertzuiop").is_err());
        assert!(find(&"x".repeat(60_000)).is_err());
    }
}
