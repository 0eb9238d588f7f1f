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

/// Highest exponent: what is beyond it is more than there is.
const EXPONENT_MAX: u32 = 18;

/// The whole number of bytes that a quantity stands for, rounded up; `None` if it is none.
pub fn bytes(text: &str) -> Option<i128> {
    let text = text.trim();
    if let Some((number, exponent)) = text.split_once(['e', 'E'])
        && let Ok(exponent) = exponent.parse::<u32>()
    {
        return whole(number, (exponent <= EXPONENT_MAX).then(|| 10_i128.pow(exponent))?);
    }
    let (number, factor) = SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)))?;
    whole(number, factor)
}

/// The whole number that a decimal one stands for, times `factor`, rounded up.
fn whole(number: &str, factor: i128) -> Option<i128> {
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
            ("1e3", Some(1000)),
            ("1.5E3", Some(1500)),
            ("1e99", None),
            ("1Ei", Some(1 << 60)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("-1Gi", None),
            ("Gi", None),
            ("", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
