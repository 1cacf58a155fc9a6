//! Sentences: findings and figures as text and as JSON.
//!
//! All functions are pure and return a `String` or a JSON value. They compute and judge no figure,
//! and print nothing. Strings from devices and file names pass through [`clean`](clean::clean)
//! first.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a name that says it all has no sentence that repeats it")]

pub mod answer;
pub mod card;
pub mod chart;
pub mod check_table;
pub mod comparison_json;
mod comparison_page;
pub mod comparison_text;
pub mod cross_check_text;
pub mod datasets;
pub mod doctor_text;
pub mod experiment_figures;
pub mod experiment_report;
pub mod experiment_text;
pub mod explain;
pub mod fidelity_text;
pub mod fio;
pub mod fio_job;
pub mod fio_report;
pub mod fleet;
#[cfg(test)]
pub(crate) mod golden;
pub mod hlog;
pub mod hosts_report;
pub mod html;
pub mod json;
pub mod ladder_text;
mod latency_map;
mod layers_text;
pub mod markdown;
pub mod peers;
pub mod plain;
mod precision_text;
pub mod profile_figures;
pub mod profile_json;
pub mod profile_text;
pub mod profile_toml;
pub mod progress;
pub mod prometheus;
mod pursuit_text;
pub mod report;
pub mod report_json;
pub mod run_report;
pub mod run_text;
pub mod runs_text;
#[cfg(test)]
mod sample;
pub mod selftest_text;
pub mod series;
pub mod sign_off;
mod steady_text;
mod verdict_text;
pub mod verify_json;
pub mod verify_text;
mod wording;
pub mod workload_toml;
pub mod wrap;

pub use answer::hosts::hosts_answer;
pub use answer::{Answer, CampaignAnswer};
pub use card::card;
pub use check_table::{CheckReport, CheckTable};
pub use comparison_json::comparison_json;
pub use comparison_page::comparison_sections;
pub use comparison_text::comparison_text;
pub use cross_check_text::cross_check_text;
pub use datasets::{csv, ssv};
pub use doctor_text::{DoctorReport, Feature, Floor};
pub use experiment_text::{experiment_text, point_line};
pub use fidelity_text::{fidelity_json, fidelity_text};
pub use html::html;
pub use iosonde_model::units::clean;
pub use ladder_text::{ladder_header, ladder_json, ladder_sections, ladder_text};
pub use markdown::markdown;
pub use peers::{peers_json, peers_text};
pub use plain::plain;
pub use profile_json::profile_json;
pub use profile_text::{profile_sections, profile_text};
pub use report_json::report_json;
pub use runs_text::runs_text;
pub use selftest_text::{repetition_json, repetition_text, selftest_json, selftest_text};
pub use verify_json::verify_json;
pub use verify_text::verify_sections;
pub use verify_text::{verify_heading, verify_text};
pub use workload_toml::workload_toml;
pub use wrap::{Rule, table, wrapped};
