//! Options for the operations: direction, sizes, order, regions.

use clap::{Args, ValueEnum};

use super::words::{by_way, not_one_of, range, signed_size, size, split, unfit, zones};
use super::{Switch, switched};
use crate::cli::exit::{Failure, wrong};
use iosonde_model::spec::{Access, Draw, Region, Role, Rw, Sizes, Threads};

/// Default percentage of reads in a mixed load.
const MIX_PERCENT: u8 = 50;
/// Default size of an operation.
const BLOCK_BYTES: u64 = 4096;

#[derive(Args, Debug)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadArgs {
    /// Direction and order: read, write, randread, randwrite, rw, readwrite, randrw, trim,
    /// randtrim; `read:8k` leaves a hole of 8 KiB after each block
    #[arg(
        long,
        visible_alias = "readwrite",
        value_name = "MODE",
        required_unless_present = "file"
    )]
    rw: Option<String>,
    /// Size of one operation; `4k,64k` for reads and writes of a mixed load [default: 4k]
    #[arg(
        long,
        visible_alias = "blocksize",
        value_name = "SIZE",
        conflicts_with_all = ["bsrange", "bssplit"]
    )]
    bs: Option<String>,
    /// Sizes drawn uniformly from the multiples of LOW; `,` as in --bs
    #[arg(
        long,
        visible_alias = "blocksize-range",
        value_name = "LOW-HIGH",
        conflicts_with = "bssplit"
    )]
    bsrange: Option<String>,
    /// Sizes with their shares, such as 4k/70:64k/30; `,` as in --bs
    #[arg(long, value_name = "SIZE/PERCENT:…")]
    bssplit: Option<String>,
    /// Random offsets are multiples of this [default: the smallest size]
    #[arg(long, visible_alias = "ba", value_name = "SIZE")]
    blockalign: Option<String>,
    /// Distance between the starts of consecutive sequential blocks; negative for descending
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    stride: Option<String>,
    /// Percentage of reads in rw and randrw [default: 50]
    #[arg(long, value_name = "PERCENT")]
    rwmixread: Option<u8>,
    /// Percentage of writes in rw and randrw
    #[arg(long, value_name = "PERCENT", conflicts_with = "rwmixread")]
    rwmixwrite: Option<u8>,
    /// Jobs: one thread and one queue each [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    numjobs: Option<u32>,
    /// How the jobs divide the region: each uses all of it, disjoint parts, or all of it with
    /// streams that start at equal distances
    #[arg(long, value_enum, value_name = "HOW")]
    region: Option<RegionWord>,
    /// Distance of the regions of two neighbouring jobs
    #[arg(long, value_name = "SIZE")]
    offset_increment: Option<String>,
    /// random (every block once before any twice), uniform, zipf:THETA, pareto:H, normal:PERCENT,
    /// zoned:ACCESS/SIZE:…, single-pass:SPARE_PERCENT (one pass over all flash that leaves it in
    /// the state after many random passes)
    #[arg(long, value_name = "DIST")]
    random_distribution: Option<String>,
    /// Draw random offsets independently; without it every block is used once before any is used
    /// twice
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "0|1")]
    norandommap: Option<Switch>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RegionWord {
    Shared,
    Partitioned,
    Staggered,
}

/// A load without pace, data and other options.
pub(super) struct Load {
    pub(super) role: Role,
    pub(super) block_bytes: u64,
    pub(super) read_percent: u8,
}

impl LoadArgs {
    pub(super) fn jobs(&self) -> u32 {
        self.numjobs.unwrap_or(1)
    }

    /// Distance between the regions of two neighbouring jobs, bytes.
    pub(super) fn increment_bytes(&self) -> Result<Option<u64>, Failure> {
        self.offset_increment.as_deref().map(|text| size("--offset-increment", text)).transpose()
    }

    /// Converts the options to a load.
    pub(super) fn load(&self) -> Result<Load, Failure> {
        let (rw, hole) = rw(self.rw.as_deref().unwrap_or(""))?;
        self.effective(rw)?;
        let (block_bytes, sizes) = self.sizes(rw)?;
        let stride = self.stride(hole, block_bytes, &sizes)?;
        let align =
            self.blockalign.as_deref().map(|text| size("--blockalign", text)).transpose()?;
        let mix = match (self.rwmixread, self.rwmixwrite) {
            (None, Some(writes)) if writes <= 100 => 100 - writes,
            (None, Some(writes)) => {
                return Err(unfit("--rwmixwrite", &writes.to_string(), "0 to 100"));
            }
            (reads, _) => reads.unwrap_or(MIX_PERCENT),
        };
        let region = self.region.map_or(Region::Shared, |word| match word {
            RegionWord::Shared => Region::Shared,
            RegionWord::Partitioned => Region::Partitioned,
            RegionWord::Staggered => Region::Staggered,
        });
        let role = Role {
            threads: Threads::Count(self.jobs()),
            access: self.access()?,
            sizes,
            stride,
            block_align: align,
            region,
            offset_increment: self.increment_bytes()?,
            ..Role::new("job", rw)
        };
        Ok(Load { role, block_bytes, read_percent: rw.read_percent(mix) })
    }

    /// Refuses options that have no effect with this load.
    fn effective(&self, rw: Rw) -> Result<(), Failure> {
        let jobs = self.jobs();
        let idle = [
            ("--rwmixread", self.rwmixread.is_some() && !rw.is_mixed(), "--rw", rw.word()),
            ("--rwmixwrite", self.rwmixwrite.is_some() && !rw.is_mixed(), "--rw", rw.word()),
            ("--norandommap", switched(self.norandommap) && !rw.is_random(), "--rw", rw.word()),
            (
                "--random-distribution",
                self.random_distribution.is_some() && !rw.is_random(),
                "--rw",
                rw.word(),
            ),
            ("--blockalign", self.blockalign.is_some() && !rw.is_random(), "--rw", rw.word()),
            ("--region", self.region.is_some() && jobs == 1, "--numjobs", "1"),
            ("--offset-increment", self.offset_increment.is_some() && jobs == 1, "--numjobs", "1"),
        ];
        let found = idle.iter().find(|(_, idle, ..)| *idle);
        found.map_or(Ok(()), |(option, _, with, word)| {
            Err(wrong(format!("{option} has no effect with {with} {word}")))
        })
    }

    /// Nominal size, and distribution of sizes.
    fn sizes(&self, rw: Rw) -> Result<(u64, Sizes), Failure> {
        type Parse = fn(&str, &str) -> Result<Draw, Failure>;
        let fixed: Parse = |option, text| size(option, text).map(Draw::Fixed);
        let (option, text, parse) = match (&self.bs, &self.bsrange, &self.bssplit) {
            (Some(text), _, _) => ("--bs", text, fixed),
            (_, Some(text), _) => ("--bsrange", text, range as Parse),
            (_, _, Some(text)) => ("--bssplit", text, split as Parse),
            _ => return Ok((BLOCK_BYTES, Sizes::default())),
        };
        // As in fio, `,8k` leaves the reads at their default.
        let parse = |text: &str| match text {
            "" => Ok(Draw::Fixed(BLOCK_BYTES)),
            text => parse(option, text),
        };
        match by_way(option, text, rw.is_mixed())? {
            (first, Some(second)) => {
                let (read, write) = (parse(first)?, parse(second)?);
                Ok((nominal(&read), Sizes { read, write, ..Sizes::default() }))
            }
            ("", None) => Err(unfit(option, text, "a size such as 4k")),
            (first, None) => {
                let draw = parse(first)?;
                let nominal_bytes = nominal(&draw);
                if let Draw::Fixed(_) = draw {
                    return Ok((nominal_bytes, Sizes::default()));
                }
                let of = |used: bool| if used { draw.clone() } else { Draw::Block };
                let reads = matches!(rw, Rw::Read | Rw::RandRead) || rw.is_mixed();
                let writes = matches!(rw, Rw::Write | Rw::RandWrite) || rw.is_mixed();
                let sizes = Sizes { read: of(reads), write: of(writes), trim: of(rw.trims()) };
                Ok((nominal_bytes, sizes))
            }
        }
    }

    /// Distance between sequential blocks; a hole of fio's counts from the end of a block.
    fn stride(
        &self,
        hole: Option<&str>,
        block_bytes: u64,
        sizes: &Sizes,
    ) -> Result<Option<i64>, Failure> {
        match (hole, self.stride.as_deref()) {
            (None, None) => Ok(None),
            (None, Some(text)) => match signed_size("--stride", text)? {
                0 => Err(unfit("--stride", text, "a distance other than 0")),
                stride => Ok(Some(stride)),
            },
            (Some(_), Some(_)) => {
                let message = "--stride and a hole after --rw's word both say where the next \
                               block begins; give one of them";
                Err(wrong(message))
            }
            (Some(hole), None) if *sizes == Sizes::default() => {
                match i64::try_from(block_bytes).unwrap_or(0) + signed_size("--rw", hole)? {
                    0 => Err(unfit("--rw", hole, "a gap that leads to another block")),
                    stride => Ok(Some(stride)),
                }
            }
            (Some(hole), None) => {
                Err(unfit("--rw", hole, "no gap with several block sizes; use --stride"))
            }
        }
    }

    fn access(&self) -> Result<Access, Failure> {
        let option = "--random-distribution";
        let independent = switched(self.norandommap);
        let usual = if independent { Access::Uniform } else { Access::Permutation };
        let Some(text) = self.random_distribution.as_deref() else { return Ok(usual) };
        let (word, value) = text.split_once(':').unwrap_or((text, ""));
        let percent = |expected: &str| super::words::number(option, value, expected);
        let alone = |expected: &str| percent(&format!("{expected}, without further values"));
        let access = match word {
            "random" | "permutation" if value.is_empty() => return Ok(usual),
            "uniform" if value.is_empty() => Access::Uniform,
            "zipf" => Access::Zipf(alone("zipf:THETA, a skew such as 1.1")?),
            "pareto" => Access::Pareto(alone("pareto:H, a share such as 0.2")?),
            "normal" | "gauss" => {
                Access::Normal(alone("normal:PERCENT, a deviation in percent of the region")?)
            }
            "single-pass" => Access::SinglePass(percent(
                "single-pass:PERCENT, flash beyond the region in percent of it",
            )?),
            "zoned" => Access::Zoned(zones(option, value)?),
            word => {
                let names = [
                    "random",
                    "uniform",
                    "permutation",
                    "zipf",
                    "pareto",
                    "normal",
                    "zoned",
                    "single-pass",
                ];
                return Err(not_one_of(option, word, &names));
            }
        };
        if independent && access != Access::Uniform {
            return Err(wrong(format!(
                "--norandommap has no effect with {option} {word}: its draws are independent"
            )));
        }
        Ok(access)
    }
}

/// Size that represents a draw in headings: the smallest.
fn nominal(draw: &Draw) -> u64 {
    match draw {
        Draw::Block => BLOCK_BYTES,
        Draw::Fixed(bytes) => *bytes,
        Draw::Range { low, .. } => *low,
        Draw::Split(shares) => shares.iter().map(|(bytes, _)| *bytes).min().unwrap_or(0),
    }
}

/// Word of --rw, and the value after its colon.
fn rw(text: &str) -> Result<(Rw, Option<&str>), Failure> {
    let (word, after) = match text.split_once(':') {
        Some((word, after)) => (word, Some(after)),
        None => (text, None),
    };
    let known = Rw::WORDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    let Some((_, rw)) = known else {
        if matches!(word, "verify-flush" | "verify-pipeline") {
            let message =
                format!("--rw: `{word}` is a separate command: see `iosonde verify --help`");
            return Err(wrong(message));
        }
        return Err(not_one_of("--rw", word, &Rw::WORDS.map(|(name, _)| name)));
    };
    match after {
        Some(_) if rw.is_random() => {
            let expected = "no value after a random word: a new offset is drawn for each operation";
            Err(unfit("--rw", text, expected))
        }
        after => Ok((*rw, after)),
    }
}
