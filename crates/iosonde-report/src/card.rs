//! A result as one picture of 1200 x 630 pixels, for a ticket or a forum.

use super::answer::Answer;
use super::chart::{escaped, shortened, wrapped};
use super::clean::clean;
use super::report::Report;
use super::wording;

const WIDTH: u32 = 1200;
const HEIGHT: u32 = 630;
/// Left edge of all text.
const LEFT: u32 = 60;
/// Width of a line of text.
const ROOM: f64 = (WIDTH - 2 * LEFT) as f64;

/// The picture as SVG: title, device, date, the three lines of the answer, and the command.
pub fn card(report: &Report) -> String {
    let answer = Answer::of_report(report, None);
    let (result, confidence, next) = split(report, answer);
    let color = color(report.source.exit_code, &confidence);
    let mut page = Page { out: String::new(), y: 92.0 };
    page.words(&report.title, 46.0, "#111", true, 2);
    page.y += 6.0;
    page.words(&wording::source(&report.source), 24.0, "#595959", false, 1);
    page.y += 26.0;
    page.words(&result, 36.0, "#111", true, 4);
    page.y += 22.0;
    page.words(&format!("Confidence: {confidence}"), 28.0, color, true, 2);
    page.y += 8.0;
    page.words(&format!("Next: {next}"), 26.0, "#333", false, 2);
    let device = device(report);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"Liberation Sans, Arial, Helvetica, \
         DejaVu Sans, sans-serif\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <rect width=\"18\" height=\"{HEIGHT}\" fill=\"{color}\"/>\n{}\
         <text x=\"{LEFT}\" y=\"596\" font-size=\"22\" fill=\"#595959\">{}</text>\n</svg>\n",
        page.out,
        escaped(&shortened(&device, 22.0, ROOM))
    )
}

/// Red for a failure or low confidence; green only for high confidence without a failure.
fn color(exit_code: u8, confidence: &str) -> &'static str {
    let confidence = confidence.split([':', ',', ' ']).next().unwrap_or_default();
    match (exit_code, confidence) {
        (0, "high") => "#1b7f3b",
        (0, "medium") | (3 | 7, "high" | "medium") => "#8a5a00",
        _ => "#a4161a",
    }
}

/// Result, confidence and next action. The answer of a run already contains the last two.
fn split(report: &Report, answer: Answer) -> (String, String, String) {
    let find = |head: &str| report.answer.iter().find_map(|line| line.strip_prefix(head));
    match (find("Confidence: "), find("Next: "), report.answer.first()) {
        (Some(confidence), Some(next), Some(result)) => {
            (result.clone(), confidence.trim_end_matches('.').to_owned(), next.to_owned())
        }
        _ => (answer.result, answer.confidence, answer.next),
    }
}

/// The device and its machine, as the environment lists them.
fn device(report: &Report) -> String {
    let wanted = ["device", "target", "file system", "kernel", "cpu", "processor"];
    let known = report.environment.iter().filter(|(name, _)| {
        let name = name.to_lowercase();
        wanted.iter().any(|word| name.contains(word))
    });
    let parts: Vec<&str> = known.map(|(_, value)| value.as_str()).take(4).collect();
    clean(&parts.join(" · "))
}

struct Page {
    out: String,
    y: f64,
}

impl Page {
    /// Writes `words` in at most `most` lines; an ellipsis marks what does not fit.
    fn words(&mut self, words: &str, size: f64, color: &str, is_bold: bool, most: usize) {
        let words = clean(words);
        let lines = wrapped(&words, size, is_bold, ROOM);
        let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
        let more = lines.len() > most;
        for (at, line) in lines.iter().take(most).enumerate() {
            let line = match more && at + 1 == most {
                true => format!("{}…", line.trim_end_matches(['.', ',', ';'])),
                false => line.to_string(),
            };
            self.out.push_str(&format!(
                "<text x=\"{LEFT}\" y=\"{:.0}\" font-size=\"{size}\" fill=\"{color}\"{weight}>{}\
                 </text>\n",
                self.y,
                escaped(&line)
            ));
            self.y += size * 1.28;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::chart::png;
    use crate::sample;

    #[test]
    fn a_card_has_title_and_answer_and_its_size_whatever_the_names() {
        let mut report = sample::report();
        report.title = "check on /dev/nvme0n1, WWWWWWW WWWWWWW WWWWWWW WWWWWWW WWWWWWW".into();
        let svg = card(&report);
        assert!(svg.contains("Confidence: "), "{svg}");
        // Two lines: forty of the widest letters do not fit into one.
        assert_eq!(svg.matches("font-size=\"46\"").count(), 2, "{svg}");
        let image = png(&svg, 1.0).unwrap();
        assert_eq!(&image[1..4], b"PNG");
        assert_eq!(
            [&image[16..20], &image[20..24]],
            [&1200u32.to_be_bytes(), &630u32.to_be_bytes()]
        );
        // A command may end in the current directory.
        report.answer = vec!["No fault seen.".into(), "Confidence: high.".into()];
        report.answer.push("Next: Find its limits: iosonde experiment run study .".into());
        let svg = card(&report);
        assert!(svg.contains("run study .<") && svg.contains("Confidence: high<"), "{svg}");
        assert!(svg.contains(color(0, "high")), "{svg}");
        report.source.exit_code = 4;
        let svg = card(&report);
        assert!(!svg.contains(color(0, "high")), "corruption is not green: {svg}");
        report.title = "</text><script>alert(1)</script>\u{1b}[2J ".repeat(20);
        let svg = card(&report);
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");
        assert!(png(&svg, 1.0).is_ok());
    }
}
