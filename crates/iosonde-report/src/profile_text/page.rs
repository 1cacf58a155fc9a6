//! The sections of a profile's report that a page shows as lists and tables.

use crate::report::{self, Block, Picture, Section};
use iosonde_analysis::profile::Figures;
use iosonde_model::record::ProfileRun;

use super::{cells, file_systems, source, tables, waits};

/// Waits of the program, findings, tables, and the given pictures.
pub fn profile_sections(
    run: &ProfileRun,
    figures: &Figures,
    pictures: impl Iterator<Item = Picture>,
) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut add = |name: &str, heading: &str, blocks: Vec<Block>| {
        if !blocks.is_empty() {
            sections.push(Section::new(name, heading, blocks));
        }
    };
    let list = |items: Vec<String>| match items.is_empty() {
        true => Vec::new(),
        false => vec![Block::List(items)],
    };
    add("waits", "What it waits for", list(waits::shares(figures)));
    add("findings", "Findings", list(source::found(figures)));
    let mut files = block(Some(tables::files_table(figures).0));
    files.extend(captioned(tables::LATENCIES, Some(tables::file_latencies_table(figures))));
    add("files", "Files", files);
    let called = tables::called(figures);
    let mut syncs = block(called.map(tables::syncs_table));
    syncs.extend(captioned(tables::SYNC_PARTS, called.map(tables::sync_parts_table)));
    add("syncs", "Sync calls", syncs);
    let threads = tables::threads_table(run, figures);
    add("threads", "Threads", block(threads.map(|(table, _)| table)));
    add("classes", "Who the requests are for", block(Some(tables::classes_table(run, figures))));
    add("flags", "Requests by flag", block(Some(tables::flags_table(figures))));
    let work = captioned(file_systems::CAPTION, Some(file_systems::table(run)));
    add("file-systems", "File systems", work);
    let several = figures.cgroups.len() > 1;
    let mut cgroups = block(several.then(|| tables::cgroups_table(figures)));
    let latencies = several.then(|| tables::cgroup_latencies_table(figures));
    cgroups.extend(captioned(tables::LATENCIES, latencies));
    add("cgroups", "Cgroups", cgroups);
    let pictures = pictures.map(|picture| Block::Picture(Box::new(picture)));
    add("figures", "Figures", pictures.collect());
    sections
}

/// A table as a block for a page, unless it has no rows.
fn block(table: Option<cells::Table>) -> Vec<Block> {
    captioned("", table)
}

/// The same with a caption.
fn captioned(caption: &str, table: Option<cells::Table>) -> Vec<Block> {
    let Some(table) = table.filter(|table| !table.is_empty()) else { return Vec::new() };
    vec![Block::Table(report::Table::of_texts(caption, table.columns, table.rows))]
}
