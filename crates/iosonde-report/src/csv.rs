//! Cells of a CSV file (RFC 4180) that no spreadsheet takes for a formula.

/// A string as a cell: quoted where it must be, and with a leading `'` where a spreadsheet would
/// run it. Numbers are written bare by whoever has them.
pub fn csv_cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let harmless = if formula { format!("'{text}") } else { text.to_owned() };
    if harmless.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", harmless.replace('"', "\"\""))
    } else {
        harmless
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_quoted_and_harmless() {
        assert_eq!(csv_cell("Database"), "Database");
        assert_eq!(csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        for first in ["=", "+", "-", "@", "\t"] {
            assert_eq!(csv_cell(&format!("{first}1")), format!("'{first}1"));
        }
        assert_eq!(csv_cell("\r1"), "\"'\r1\"");
        assert_eq!(csv_cell(""), "");
    }
}
