//! Numbers as Go writes them: `le="2.592e+06"` is a label, and queries compare it by its
//! letters.

use std::fmt::Write as _;

/// The shortest digits that say the same number, with an exponent below 1e-4 and from a
/// million on.
pub(super) fn write(into: &mut String, number: f64) {
    if number.is_nan() {
        return into.push_str("NaN");
    }
    if number.is_infinite() {
        return into.push_str(if number > 0.0 { "+Inf" } else { "-Inf" });
    }
    let size = number.abs();
    // Writing to a string does not fail.
    if size == 0.0 || (1e-4..1e6).contains(&size) {
        let _ = write!(into, "{number}");
        return;
    }
    let start = into.len();
    let _ = write!(into, "{number:e}");
    let Some(at) = into[start..].find('e').map(|at| start + at + 1) else {
        return;
    };
    // Rust writes `e6` and `e-7`, Go `e+06` and `e-07`.
    let exponent = into.split_off(at);
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent.as_str()),
    };
    into.push(sign);
    if digits.len() < 2 {
        into.push('0');
    }
    into.push_str(digits);
}

pub(super) fn write_whole(into: &mut String, number: u64) {
    let _ = write!(into, "{number}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (number, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (829_923.0, "829923"),
            (999_999.5, "999999.5"),
            (1_000_000.0, "1e+06"),
            (-2_592_000.0, "-2.592e+06"),
            (1_794_722_854.68, "1.79472285468e+09"),
            (1.5e300, "1.5e+300"),
            (18_446_744_073_709_551_615.0, "1.8446744073709552e+19"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            let mut written = String::new();
            write(&mut written, number);
            assert_eq!(written, text);
        }
    }
}
