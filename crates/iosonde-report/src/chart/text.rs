//! Estimates the width of a text without a font.

/// Advance widths of the characters from the space to `~`, in thousandths of the font size. Each is
/// the larger of DejaVu Sans and Liberation Sans, whose widths equal those of Arial and Helvetica.
/// A text in any of the four fonts is therefore at most as wide as estimated.
#[rustfmt::skip]
const WIDTHS: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
    636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 556,
    1015, 684, 686, 722, 770, 667, 611, 778, 752, 295, 500, 667, 557, 863, 748, 787,
    667, 787, 722, 667, 611, 732, 684, 989, 685, 667, 685, 390, 337, 390, 838, 556,
    500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
    635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];
/// Width of any other character: that of the widest in figures (`…`, `×`, `→`, `≥`).
const OTHER_WIDTH: u16 = 1000;
/// The same for the bold fonts.
#[rustfmt::skip]
const BOLD_WIDTHS: [u16; 95] = [
    349, 457, 521, 838, 696, 1002, 873, 307, 458, 458, 523, 838, 380, 416, 380, 366,
    696, 696, 696, 696, 696, 696, 696, 696, 696, 696, 400, 400, 838, 838, 838, 611,
    1000, 774, 763, 734, 831, 684, 684, 821, 837, 373, 557, 775, 638, 996, 837, 851,
    733, 851, 771, 721, 683, 813, 774, 1104, 771, 725, 726, 458, 366, 458, 838, 557,
    500, 675, 716, 593, 716, 679, 436, 716, 712, 343, 343, 666, 343, 1042, 712, 688,
    716, 716, 494, 596, 479, 712, 652, 924, 646, 652, 583, 712, 366, 712, 838,
];

/// Height of capitals, digits and most other characters above the baseline, in font sizes.
pub(super) const ASCENT: f64 = 0.78;

/// Width of a text, in the unit of `size`; an upper bound.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let thousandths: u32 = text.chars().map(|c| u32::from(advance(c, bold))).sum();
    f64::from(thousandths) / 1000.0 * size
}

fn advance(character: char, bold: bool) -> u16 {
    let index = (character as usize).checked_sub(32);
    let widths = if bold { &BOLD_WIDTHS } else { &WIDTHS };
    let listed = index.and_then(|index| widths.get(index)).copied();
    match (character, bold) {
        ('µ', false) => 636,
        ('µ', true) => 736,
        ('·', false) => 318,
        ('·', true) => 380,
        ('–', _) => 556,
        _ => listed.unwrap_or(OTHER_WIDTH),
    }
}

/// The text, or as much of its beginning as fits, with an ellipsis.
pub(crate) fn shortened(text: &str, size: f64, room: f64) -> String {
    shortened_in(text, size, false, room)
}

/// The same for bold or regular text.
pub(super) fn shortened_in(text: &str, size: f64, bold: bool, room: f64) -> String {
    if width(text, size, bold) <= room {
        return text.into();
    }
    let mut kept = String::new();
    for character in text.chars() {
        kept.push(character);
        if width(&kept, size, bold) + width("…", size, bold) > room {
            kept.pop();
            break;
        }
    }
    format!("{}…", kept.trim_end())
}

/// Wraps a text at spaces; a word that does not fit on a line of its own is shortened.
pub(crate) fn wrapped(text: &str, size: f64, bold: bool, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let joined = lines.last().map(|line| format!("{line} {word}"));
        match (joined, lines.last_mut()) {
            (Some(joined), Some(line)) if width(&joined, size, bold) <= room => *line = joined,
            _ => lines.push(shortened_in(word, size, bold, room)),
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
