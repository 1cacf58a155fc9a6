//! Renders an iosonde result as its command did, or as a report document.

use serde_json::Value;

use super::kept::{Kept, Records};
use super::write::{Rendered, deliver, deliver_report, marked};
use super::{Form, Pictures, ReportArgs};
use crate::cli::ending::Judgement;
use crate::cli::exit::{About, Exit, Failure, wrong};
use crate::cli::results;
use crate::cli::screen;
use crate::cli::words::values;
use crate::cli::{profile, verify};
use iosonde_analysis::expectation::Expectation;
use iosonde_analysis::profile::figures as profile_figures_of;
use iosonde_analysis::reference::{Placement, place};
use iosonde_analysis::verdict::{Assessment, assess};
use iosonde_analysis::{judge, ladder};
use iosonde_model::plan::Plan;
use iosonde_model::record::Run;
use iosonde_model::record::run::Outcome;
use iosonde_model::spec::reference::built_in;
use iosonde_report::chart::Figure;
use iosonde_report::json::{self, Document, json_text};
use iosonde_report::report::{Picture, Report, Source};
use iosonde_report::run_report::{self, environment_of, run_report};
use iosonde_report::{
    Answer, CheckReport, ladder_json, ladder_sections, ladder_text, profile_figures, profile_json,
    profile_sections, profile_text, runs_text, verify_json, verify_sections, verify_text,
};

/// Evaluates runs again.
pub(super) fn judgement(kept: &Kept, runs: &[(String, Run)]) -> (Vec<Assessment>, Judgement) {
    let host = kept.host.as_ref();
    let rows: Vec<Assessment> = runs.iter().map(|(_, run)| assess(run, host)).collect();
    let cells: Vec<_> = runs.iter().map(|(_, run)| run).zip(&rows).collect();
    let all = kept.manifest.as_ref().is_none_or(|manifest| manifest.complete);
    let judgement = Judgement::of(&rows, &cells, &expectations(kept, &cells), all);
    (rows, judgement)
}

/// The expectations of the command line. Invalid ones were rejected when the command ran.
fn expectations(kept: &Kept, rows: &[(&Run, &Assessment)]) -> Vec<Expectation> {
    let titles: Vec<&str> = rows.iter().map(|(run, _)| run.plan.title.as_str()).collect();
    let given = values(kept.command(), "--expect");
    given.filter_map(|text| Expectation::parse(text, &titles).ok()).collect()
}

/// Renders a result again.
pub(super) fn rerender(args: &ReportArgs, kept: &Kept) -> Result<Exit, Failure> {
    match &kept.records {
        Records::Runs(runs) => rerender_runs(args, kept, runs),
        Records::Verify(run) => {
            let rendered = judge(run, kept.command().get(1..).unwrap_or_default());
            let exit = verify::print::end_of(run, &rendered);
            let report = Report {
                title: format!("verify {} of {}", run.plan.mode.word(), path(&run.plan.plan)),
                question: "Does this storage return what was written?".into(),
                answer: Answer::of_verify(run, &rendered).sentences(),
                source: source(kept, exit),
                sections: verify_sections(run, &rendered),
                environment: environment_of(Some(&run.target), kept.host.as_ref()),
                ..Report::default()
            };
            let text = |columns| verify_text(run, &rendered, columns);
            let document = verify_json(run, &rendered, exit.code());
            plainly(args, &text, document, Pictures::new(), report)
        }
        Records::Ladder(run) => {
            let rendered = ladder(run);
            let exit = verify::fsync::end_of(run, &rendered);
            let report = Report {
                title: format!("verify fsync on {}", run.plan.path),
                question: "Is fsync honoured?".into(),
                answer: Answer::of_ladder(run, &rendered).sentences(),
                source: source(kept, exit),
                sections: ladder_sections(run, &rendered),
                environment: environment_of(Some(&run.target), kept.host.as_ref()),
                ..Report::default()
            };
            let text = |columns| ladder_text(run, &rendered, columns);
            let document = ladder_json(run, &rendered, exit.code());
            plainly(args, &text, document, Pictures::new(), report)
        }
        Records::Profile(run) => {
            let figures = profile_figures_of(run);
            let exit = profile::end_of(&run.ended);
            let text = |columns| profile_text(run, &figures, None, columns);
            let pictures = profile_figures::drawn(run).unwrap_or_default();
            let of = |(name, figure): (String, Figure)| {
                let caption = figure.title.clone();
                Picture { name, caption, figure }
            };
            let report = Report {
                title: "Profile of a program's storage I/O".into(),
                question: "What does this program do to storage?".into(),
                answer: Answer::of_profile(run, &figures).sentences(),
                source: source(kept, exit),
                sections: profile_sections(run, &figures, pictures.into_iter().map(of)),
                environment: environment_of(None, Some(&run.host)),
                ..Report::default()
            };
            let drawn = match args.figures {
                Some(_) => {
                    profile_figures::figures(run).or_environment("a chart cannot be rendered")?
                }
                None => Vec::new(),
            };
            let stem = |name: String| name.strip_suffix(".svg").unwrap_or(&name).to_owned();
            let drawn = drawn.into_iter().map(|(name, svg)| (stem(name), svg)).collect();
            plainly(args, &text, profile_json(run, &figures, &[], exit.code()), drawn, report)
        }
    }
}

/// Delivers a result that has its own text: in the formats of its command, or as a page.
fn plainly(
    args: &ReportArgs,
    text: &dyn Fn(usize) -> String,
    value: Value,
    drawn: Pictures,
    report: Report,
) -> Result<Exit, Failure> {
    let rendered = match args.output_format {
        Form::Normal | Form::Json if args.card.is_some() => {
            let report = report.with_text(text(PAGE));
            return deliver_report(args, &report, Some(text(screen::columns())));
        }
        Form::Normal => text(screen::columns()),
        Form::Json => json_text(&marked(args, value)),
        Form::Html | Form::Markdown => {
            return deliver_report(args, &report.with_text(text(PAGE)), None);
        }
        Form::Csv | Form::Ssv | Form::Ndjson | Form::Parquet => {
            let message = "--output-format: results of verify and profile are available as normal, \
                json, html or markdown; csv and ssv only for results of run, check and fio";
            return Err(wrong(message));
        }
    };
    deliver(args, &Rendered::Text(rendered), &drawn)
}

/// Columns of text in a page.
const PAGE: usize = 96;

fn path(plan: &Plan) -> &str {
    &plan.target().path
}

/// Origin of a stored result.
fn source(kept: &Kept, exit: Exit) -> Source {
    let manifest = kept.manifest.as_ref();
    Source {
        program: format!("iosonde {}", env!("CARGO_PKG_VERSION")),
        command: kept.command().to_vec(),
        started_unix_ns: manifest.map(|manifest| manifest.started_unix_ns),
        complete: manifest.is_none_or(|manifest| manifest.complete),
        exit_code: exit.code(),
    }
}

fn rerender_runs(args: &ReportArgs, kept: &Kept, runs: &[(String, Run)]) -> Result<Exit, Failure> {
    let (rows, judgement) = judgement(kept, runs);
    let rows: Vec<_> = runs.iter().map(|(_, run)| run).zip(&rows).collect();
    let verb = kept.manifest.as_ref().map_or("run", |manifest| manifest.verb.as_str());
    let is_check = verb == "check" || rows.len() > 1;
    let warnings = kept.warnings();
    let placement = place(&rows, &built_in().unwrap_or_default());
    let class = placement.words().filter(|_| is_check);
    let beside: Vec<String> =
        [results::kept_against_earlier(&kept.path), class].into_iter().flatten().collect();
    let beside = (!beside.is_empty()).then(|| beside.join("; "));
    let answer = Answer::of_runs(&rows, judgement.complete, &judgement.verdict, beside.as_deref());
    let rendered = run_report::RunReport {
        rows: &rows,
        verdict: &judgement.verdict,
        manifest: kept.manifest.as_ref(),
        host: kept.host.as_ref(),
        warnings: &warnings,
        beside: beside.as_deref(),
    };
    match args.output_format {
        Form::Normal => {
            let text = match is_check {
                true => check_again(kept, &rows, &judgement, (answer, &placement)),
                false => {
                    answer.text(screen::columns())
                        + &runs_text(&rows, &judgement.verdict, &judgement.judged)
                }
            };
            // The charts are those of the report document.
            deliver_report(args, &run_report(rendered), Some(text))
        }
        Form::Json => {
            let document = Document {
                verb,
                complete: kept.manifest.as_ref().is_none_or(|manifest| manifest.complete),
                exit_code: judgement.exit.code(),
                cells: &rows,
                verdict: Some(&judgement.verdict),
                expectations: &judgement.judged,
                host: kept.host.as_ref(),
                target: rows.first().map(|(run, _)| &run.target),
                ..Document::default()
            };
            let drawn = match args.figures {
                Some(_) => super::pictures(args, &run_report(rendered))?,
                None => Pictures::new(),
            };
            let value = marked(args, json::json(&document));
            deliver(args, &Rendered::Text(json_text(&value)), &drawn)
        }
        _ => deliver_report(args, &run_report(rendered), None),
    }
}

/// Text as `check` printed it.
fn check_again(
    kept: &Kept,
    rows: &[(&Run, &Assessment)],
    judgement: &Judgement,
    (answer, placement): (Answer, &Placement),
) -> String {
    let interrupted = rows.iter().any(|(run, _)| run.outcome != Outcome::Complete);
    let partial = kept.manifest.as_ref().is_some_and(|manifest| !manifest.complete);
    let report = CheckReport {
        answer,
        placement,
        rows,
        verdict: &judgement.verdict,
        judged: &judgement.judged,
        cross_checks: &[],
        left_out: &[],
        complete: !interrupted && !partial,
    };
    report.text(screen::columns())
}
