//! How wide a text will be, without a font at hand.

/// Advance widths of the characters from the space to `~` in thousandths of the font size: of each
/// the wider of DejaVu Sans and Liberation Sans, whose widths are those of Arial and Helvetica. So
/// a text drawn in any of the four is at most as wide as it was thought to be.
#[rustfmt::skip]
const WIDTHS: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
    636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 556,
    1015, 684, 686, 722, 770, 667, 611, 778, 752, 295, 500, 667, 557, 863, 748, 787,
    667, 787, 722, 667, 611, 732, 684, 989, 685, 667, 685, 390, 337, 390, 838, 556,
    500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
    635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];
/// Any other character: as wide as the widest of those that figures use (`…`, `×`, `→`, `≥`).
const OTHER_WIDTH: u16 = 1000;
/// How much wider bold is, at most.
const BOLD: f64 = 1.16;

/// Height above the baseline, in font sizes: capitals, digits and most else.
pub(super) const ASCENT: f64 = 0.78;

/// Width of a text, in the unit of `size`; an upper bound.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let thousandths: u32 = text.chars().map(|c| u32::from(advance(c))).sum();
    f64::from(thousandths) / 1000.0 * size * if bold { BOLD } else { 1.0 }
}

fn advance(character: char) -> u16 {
    let index = (character as usize).checked_sub(32);
    let listed = index.and_then(|index| WIDTHS.get(index)).copied();
    match character {
        'µ' => 636,
        '·' => 318,
        '–' => 556,
        _ => listed.unwrap_or(OTHER_WIDTH),
    }
}

/// The text, or as much of its beginning as fits with an ellipsis.
pub(super) fn shortened(text: &str, size: f64, room: f64) -> String {
    if width(text, size, false) <= room {
        return text.into();
    }
    let mut kept = String::new();
    for character in text.chars() {
        kept.push(character);
        if width(&kept, size, false) + width("…", size, false) > room {
            kept.pop();
            break;
        }
    }
    format!("{}…", kept.trim_end())
}

/// The text in lines that fit, broken at spaces; a word that does not fit alone is shortened.
pub(super) fn wrapped(text: &str, size: f64, bold: bool, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let joined = lines.last().map(|line| format!("{line} {word}"));
        match (joined, lines.last_mut()) {
            (Some(joined), Some(line)) if width(&joined, size, bold) <= room => *line = joined,
            _ => lines.push(shortened(word, if bold { size * BOLD } else { size }, room)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_wider_font() {
        // 636 is a digit of DejaVu Sans, 278 the space of Liberation Sans (318 that of DejaVu).
        assert_eq!(width("100 µs", 10.0, false), (3 * 636 + 318 + 636 + 521) as f64 / 100.0);
        assert!(width("wide", 10.0, true) > width("wide", 10.0, false));
        assert_eq!(width("日本", 10.0, false), 20.0);
    }

    #[test]
    fn lines_fit_and_lose_no_word() {
        let text = "latency of writes on a device with a name that goes on for quite a while";
        let lines = wrapped(text, 12.0, false, 150.0);
        assert!(lines.iter().all(|line| width(line, 12.0, false) <= 150.0));
        assert_eq!(lines.join(" "), text);
        let short = shortened(text, 12.0, 100.0);
        assert!(short.ends_with('…') && width(&short, 12.0, false) <= 100.0);
        assert!(wrapped(&"x".repeat(500), 12.0, true, 90.0)[0].ends_with('…'));
    }
}
