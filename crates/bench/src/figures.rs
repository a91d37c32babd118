//! Statistics over runs, and the format of figures.

/// Bytes of a MiB.
pub(crate) const MIB: f64 = 1_048_576.0;
/// Bytes of a GiB.
pub(crate) const GIB: f64 = 1_073_741_824.0;

/// The middle value, or the mean of the two in the middle; 0 for no values.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let (Some(upper), Some(lower)) =
        (sorted.get(sorted.len() / 2), sorted.get(sorted.len().saturating_sub(1) / 2))
    else {
        return 0.0;
    };
    f64::midpoint(*upper, *lower)
}

/// The least value; `None` for no values.
pub(crate) fn least(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.min_by(f64::total_cmp)
}

/// A ratio with two digits, or a dash.
pub(crate) fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.2}"))
}

/// Whether a goal was reached, for people; a dash if it was not measured.
pub(crate) fn verdict(reached: Option<bool>) -> &'static str {
    match reached {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 3.0].into_iter()) - 2.5).abs() < 1e-9);
        assert!(median(std::iter::empty()).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        assert_eq!(ratio(least(std::iter::empty())), "-");
        assert_eq!(ratio(least([2.0, 0.5].into_iter())), "0.50");
        assert_eq!(verdict(None), "-");
    }
}
