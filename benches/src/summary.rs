//! Several runs in one line.

use std::fmt;

/// A median with its range.
#[derive(Debug, Clone)]
pub struct Summary(Vec<f64>);

impl Summary {
    pub fn of(mut values: Vec<f64>) -> Summary {
        values.sort_by(f64::total_cmp);
        Summary(values)
    }

    /// The middle, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let half = self.0.len() / 2;
        match self.0.len() {
            0 => f64::NAN,
            len if len % 2 == 0 => (self.0[half - 1] + self.0[half]) / 2.0,
            _ => self.0[half],
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(min), Some(max)) = (self.0.first(), self.0.last()) else { return f.write_str("-") };
        write!(f, "{} [{}..{}]", digits(self.median()), digits(*min), digits(*max))
    }
}

/// Three digits are all that such measurements carry.
fn digits(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_median_with_its_range() {
        for (values, text) in [
            (vec![], "-"),
            (vec![3.0], "3.00 [3.00..3.00]"),
            (vec![5.0, 1.0, 400.0], "5.00 [1.00..400]"),
            (vec![0.5, 2.0, 1.0, 30.0], "1.50 [0.500..30.0]"),
        ] {
            assert_eq!(Summary::of(values).to_string(), text);
        }
    }
}
