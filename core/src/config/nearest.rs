//! The nearest known name to a misspelt one.

/// Longest name that is compared; longer ones have no neighbours. Keeps the cost of a hint bounded.
const COMPARED_CHARS_MAX: usize = 128;

/// The candidate that is most like `name`, if one is close enough to be what was meant: at most a third of the name
/// differs, counting an insertion, a removal, a replacement and a swap of neighbours as one.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name: Vec<char> = name.chars().map(|c| c.to_ascii_lowercase()).collect();
    if name.is_empty() || name.len() > COMPARED_CHARS_MAX {
        return None;
    }
    let allowed = (name.len() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let bound = best.map_or(allowed, |(distance, _)| distance.saturating_sub(1));
        if candidate.len().abs_diff(name.len()) > bound {
            continue;
        }
        let distance = edit_distance(&name, candidate);
        if distance <= bound {
            best = Some((distance, candidate));
            if distance == 0 {
                break;
            }
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// `" (did you mean X?)"`, or nothing.
pub fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map(|near| format!(" (did you mean {near}?)")).unwrap_or_default()
}

/// Optimal string alignment distance, ignoring ASCII case. `left` is in lower case already.
fn edit_distance(left: &[char], right: &str) -> usize {
    let right: Vec<char> = right.chars().map(|c| c.to_ascii_lowercase()).collect();
    let width = right.len() + 1;
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..width).collect();
    for (i, &l) in left.iter().enumerate() {
        let mut current = Vec::with_capacity(width);
        current.push(i + 1);
        for (j, &r) in right.iter().enumerate() {
            let mut cost = (previous[j] + usize::from(l != r)).min(previous[j + 1] + 1).min(current[j] + 1);
            if i > 0 && j > 0 && l == right[j - 1] && left[i - 1] == r {
                cost = cost.min(before[j - 1] + 1);
            }
            current.push(cost);
        }
        before = std::mem::replace(&mut previous, current);
    }
    previous[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_far_ones_are_not_offered() {
        let names = ["retention.ms", "retention.bytes", "segment.ms", "cleanup.policy"];
        let cases = [
            ("retention.msec", Some("retention.ms")),
            ("retention_ms", Some("retention.ms")),
            ("Retention.Bytes", Some("retention.bytes")),
            ("rtention.ms", Some("retention.ms")),
            ("cleanup.ploicy", Some("cleanup.policy")),
            ("color", None),
            ("", None),
        ];
        for (name, expected) in cases {
            assert_eq!(nearest(name, names), expected, "{name}");
        }
    }

    #[test]
    fn a_name_without_end_costs_nothing() {
        assert_eq!(nearest(&"x".repeat(1 << 20), ["retention.ms"]), None);
    }
}
