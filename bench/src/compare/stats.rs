//! The arithmetic of the report: what is said of several runs, and of two sides.

/// What is known of one figure on one side after some runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
    pub(crate) runs: usize,
}

impl Summary {
    /// Of the runs that have the figure; nothing if none has.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        // The mean of the two in the middle where there is no middle: with two runs, of both.
        let median =
            if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) };
        Some(Self { least, median, most, runs: values.len() })
    }
}

/// The value of which `part` of the sorted values are at most as large.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).or(sorted.last()).copied().unwrap_or(f64::NAN)
}

/// How large `ours` is beside `theirs`; nothing where theirs is zero.
pub(crate) fn ratio(ours: &Summary, theirs: &Summary) -> Option<f64> {
    (theirs.median != 0.0).then(|| ours.median / theirs.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_middle_two() {
        for (values, median) in
            [(vec![3.0], 3.0), (vec![1.0, 2.0], 1.5), (vec![9.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 100.0, 2.0], 3.0)]
        {
            let summary = Summary::of(values.clone()).unwrap();
            assert_eq!((summary.median, summary.runs), (median, values.len()), "{values:?}");
        }
    }

    #[test]
    fn the_spread_is_from_the_least_to_the_most() {
        let summary = Summary::of([5.0, 1.0, 3.0]).unwrap();
        assert_eq!((summary.least, summary.most), (1.0, 5.0));
    }

    #[test]
    fn runs_without_the_figure_do_not_count() {
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([f64::NAN, 2.0]).map(|summary| summary.runs), Some(1));
    }

    #[test]
    fn a_quantile_is_a_value_that_was_there() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.99), quantile(&values, 1.0)), (100.0, 198.0, 200.0));
        assert_eq!((quantile(&[7.0], 0.99), quantile(&[7.0, 8.0, 9.0], 0.99)), (7.0, 9.0));
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn a_ratio_is_of_medians_and_never_by_zero() {
        let of = |value| Summary::of([value]).unwrap();
        assert_eq!(ratio(&of(3.0), &of(2.0)), Some(1.5));
        assert_eq!(ratio(&of(3.0), &of(0.0)), None);
    }
}
