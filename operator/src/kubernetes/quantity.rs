//! Sizes as Kubernetes writes them.

/// Suffixes and what they multiply by.
const SUFFIXES: [(&str, i128); 13] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
    ("", 1),
];

/// Most digits behind the point that count.
const FRACTION_DIGITS_MAX: usize = 9;

/// The whole number of bytes that a quantity stands for, rounded up; `None` if it is none, or one with an exponent.
pub fn bytes(text: &str) -> Option<i128> {
    let text = text.trim();
    let (number, factor) = SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let digits: i128 = format!("{whole}{fraction}").parse().ok().filter(|digits| *digits >= 0)?;
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    Some((digits.checked_mul(factor)? + scale - 1) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1024", Some(1024)),
            ("1Ki", Some(1024)),
            ("1.5Gi", Some(3 << 29)),
            ("2G", Some(2_000_000_000)),
            ("0.1k", Some(100)),
            ("1e3", None),
            ("-1Gi", None),
            ("Gi", None),
            ("", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
