//! Arithmetic expressions in parentheses, evaluated as in fio: 64-bit integers unless a decimal
//! point appears, truncating division, and units that bind weaker than `*` and stronger than `+`.

/// Interpretation of unit letters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Dimension {
    /// `k` is 1024 and `m` is 1024².
    Bytes,
    /// `m` is a minute; values are in µs.
    Time,
}

/// The value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sum {
    /// In bytes or µs if `has_unit`.
    pub(super) value: f64,
    /// The value as an integer.
    pub(super) whole: i64,
    /// Whether the expression contains a unit.
    pub(super) has_unit: bool,
}

/// Most nested parentheses and signs.
const MAX_DEPTH: usize = 64;
/// Largest plain number: fio parses each with 32 bits.
const MAX_LITERAL: i64 = i32::MAX as i64;

/// Evaluates `(4*1024)` or `(2k+512)`; without a dimension, units are rejected.
pub(super) fn evaluate(text: &str, dimension: Option<Dimension>) -> Result<Sum, String> {
    let mut parser = Parser { rest: text, dimension, has_unit: false, depth: 0 };
    let number = parser.sum(0)?;
    parser.end()?;
    Ok(Sum { value: number.real(), whole: number.whole(), has_unit: parser.has_unit })
}

#[derive(Clone, Copy)]
enum Number {
    Whole(i64),
    Real(f64),
}

impl Number {
    fn real(self) -> f64 {
        match self {
            Number::Whole(whole) => whole as f64,
            Number::Real(real) => real,
        }
    }

    fn whole(self) -> i64 {
        match self {
            Number::Whole(whole) => whole,
            Number::Real(real) => real as i64,
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    /// `None` permits no units.
    dimension: Option<Dimension>,
    has_unit: bool,
    depth: usize,
}

/// Binding strength of a unit, between those of `+` and `*`.
const UNIT_STRENGTH: u8 = 2;

impl Parser<'_> {
    /// Evaluates operators of at least this strength.
    fn sum(&mut self, strength: u8) -> Result<Number, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} parentheses or signs within each other"));
        }
        let mut left = self.operand()?;
        loop {
            self.rest = self.rest.trim_start();
            let Some(next) = self.rest.chars().next() else { break };
            if next.is_ascii_alphabetic() {
                if UNIT_STRENGTH < strength {
                    break;
                }
                left = self.with_unit(left)?;
                continue;
            }
            let own = match next {
                '+' | '-' => 1,
                '*' | '/' => 3,
                '^' => 4,
                '%' => 5,
                _ => break,
            };
            if own < strength {
                break;
            }
            self.rest = &self.rest[1..];
            // `^` is right-associative, all others left-associative.
            let right = self.sum(if next == '^' { own } else { own + 1 })?;
            left = apply(next, left, right)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Number, String> {
        self.rest = self.rest.trim_start();
        if let Some(rest) = self.rest.strip_prefix('(') {
            self.rest = rest;
            let inner = self.sum(0)?;
            self.rest = self.rest.trim_start();
            self.rest = self.rest.strip_prefix(')').ok_or("a parenthesis is not closed")?;
            return Ok(inner);
        }
        if let Some(rest) = self.rest.strip_prefix('-') {
            self.rest = rest;
            let inner = self.sum(6)?;
            return apply('-', Number::Whole(0), inner);
        }
        let hex = self.rest.strip_prefix("0x").or_else(|| self.rest.strip_prefix("0X"));
        let radix = if hex.is_some() { 16 } else { 10 };
        let text = hex.unwrap_or(self.rest);
        let end = text
            .find(|c: char| !(c.is_digit(radix) || radix == 10 && c == '.'))
            .unwrap_or(text.len());
        let (digits, rest) = text.split_at(end);
        self.rest = rest;
        if digits.contains('.') {
            let real = digits.parse().map_err(|_error| format!("`{digits}` is not a number"))?;
            return Ok(Number::Real(real));
        }
        match i64::from_str_radix(digits, radix) {
            Ok(number) if number <= MAX_LITERAL => Ok(Number::Whole(number)),
            Ok(_) => Err(format!(
                "`{digits}` in a sum: fio reads such a number with 32 bits; write it with a unit"
            )),
            Err(_) => Err(format!("expected a number at `{}`", super::shown(text))),
        }
    }

    fn with_unit(&mut self, number: Number) -> Result<Number, String> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.rest.len());
        let (unit, rest) = self.rest.split_at(end);
        let scale = self.dimension.and_then(|dimension| scale(unit, dimension));
        let Some(scale) = scale else {
            return Err(format!("`{}` is not a unit of a sum", super::shown(unit)));
        };
        self.rest = rest;
        self.has_unit = true;
        apply('*', number, Number::Whole(scale))
    }

    fn end(&self) -> Result<(), String> {
        if self.rest.trim().is_empty() {
            return Ok(());
        }
        Err(format!("`{}` follows the sum", super::shown(self.rest.trim())))
    }
}

/// fio's units inside parentheses, which ignore `kb_base`.
fn scale(unit: &str, dimension: Dimension) -> Option<i64> {
    let unit = unit.to_ascii_lowercase();
    Some(match (unit.as_str(), dimension) {
        ("us", Dimension::Time) => 1,
        ("ms", Dimension::Time) => 1_000,
        ("s", Dimension::Time) => 1_000_000,
        ("m", Dimension::Time) => 60_000_000,
        ("h", Dimension::Time) => 3_600_000_000,
        ("d", Dimension::Time) => 86_400_000_000,
        ("k" | "kb", Dimension::Bytes) => 1 << 10,
        ("m" | "mb", Dimension::Bytes) => 1 << 20,
        ("g" | "gb", Dimension::Bytes) => 1 << 30,
        ("t" | "tb", Dimension::Bytes) => 1 << 40,
        ("p" | "pb", Dimension::Bytes) => 1 << 50,
        ("kib", Dimension::Bytes) => 1_000,
        ("mib", Dimension::Bytes) => 1_000_000,
        ("gib", Dimension::Bytes) => 1_000_000_000,
        _ => return None,
    })
}

fn apply(operator: char, left: Number, right: Number) -> Result<Number, String> {
    let overflow = || "the sum exceeds 64 bits".to_string();
    if let (Number::Whole(a), Number::Whole(b)) = (left, right) {
        let whole = match operator {
            '+' => a.checked_add(b),
            '-' => a.checked_sub(b),
            '*' => a.checked_mul(b),
            '/' | '%' if b == 0 => return Err("division by zero".into()),
            '/' => a.checked_div(b),
            '%' => a.checked_rem(b),
            _ => match u32::try_from(b) {
                Ok(power) => a.checked_pow(power),
                Err(_) => return Err("a power below zero".into()),
            },
        };
        return whole.map(Number::Whole).ok_or_else(overflow);
    }
    let (a, b) = (left.real(), right.real());
    let real = match operator {
        '+' => a + b,
        '-' => a - b,
        '*' => a * b,
        '/' if b.abs() < 1e-20 => return Err("division by zero".into()),
        '/' => a / b,
        '%' => return Err("a remainder of numbers that are not whole".into()),
        _ => a.powf(b),
    };
    if real.is_finite() && real.abs() < 9e18 { Ok(Number::Real(real)) } else { Err(overflow()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// By fio's grammar; builds of fio without its calculator refuse all of them.
    #[test]
    fn sums_of_bytes() {
        for (text, expected) in [
            ("(4*1024)", 4096),
            ("(4k)", 4096),
            ("(2*4k)", 8192),
            ("(4k*2)", 8192),
            ("(8/4k)", 2048),
            ("(1+2k)", 2049),
            ("(2^3)", 8),
            ("(17%5)", 2),
            ("(7/2)", 3),
            ("(1.5*4k)", 6144),
            ("(-4+8)", 4),
            ("((1+1)*(2+2))", 8),
            ("(0x10*2)", 32),
            ("(1kib)", 1000),
            ("(4g)", 1 << 32),
        ] {
            assert_eq!(evaluate(text, Some(Dimension::Bytes)).unwrap().whole, expected, "{text}");
        }
        assert!(!evaluate("(4*1024)", Some(Dimension::Bytes)).unwrap().has_unit);
        assert_eq!(evaluate("(1m+30s)", Some(Dimension::Time)).unwrap().whole, 90_000_000);
        assert_eq!(evaluate("8*4096/2", None).unwrap().whole, 16_384);
    }

    #[test]
    fn nonsense_is_refused_without_harm() {
        let deep = "(".repeat(100_000);
        let signs = "-".repeat(100_000);
        for text in [
            "(",
            "()",
            "(1",
            "(1/0)",
            "(1%0)",
            "(1+)",
            "(1x)",
            "(1)2",
            "(9^99)",
            "(2^-1)",
            "(5000000000)",
            "(1.5%2)",
            "(1..2)",
            "",
            "(é)",
            &deep,
            &signs,
        ] {
            assert!(evaluate(text, Some(Dimension::Bytes)).is_err(), "{text}");
        }
        assert!(evaluate("4k", None).is_err(), "a plain sum has no units");
    }
}
