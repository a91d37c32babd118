//! [`Report`]: the rows of one group as a Markdown table.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

/// Which values of a row are the better ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    High,
    Low,
}

/// What a row should reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {}", digits(least)),
            Self::AtMost(most) => format!("at most {}", digits(most)),
        }
    }
}

/// One figure of the store, of each turn, and the same of the bare program.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) store: Vec<f64>,
    /// Empty without a bare program.
    pub(crate) bare: Vec<f64>,
    pub(crate) goal: Option<Goal>,
}

/// The rows of one group. Each is printed when it is measured: a group can take an hour.
#[derive(Debug)]
pub(crate) struct Report {
    is_printed: bool,
}

impl Report {
    pub(crate) fn new(group: &str, is_printed: bool) -> Self {
        if is_printed {
            println!("\n### {group}\n");
            println!("| row | unit | store | bare | store : bare | goal | met |");
            println!("|---|---|---|---|---|---|---|");
        }
        Self { is_printed }
    }

    /// Prints medians, and the best turn in brackets.
    pub(crate) fn add(&mut self, row: &Row) {
        if !self.is_printed {
            return;
        }
        let store = median(&row.store);
        let (bare, ratio) = if row.bare.is_empty() {
            ("-".to_owned(), "-".to_owned())
        } else {
            let ratio = store / median(&row.bare);
            (with_best(&row.bare, row.better), format!("{ratio:.2}"))
        };
        let goal = row.goal.map_or("-".to_owned(), Goal::text);
        let met = row.goal.map_or("-", |goal| if goal.is_met(store) { "yes" } else { "no" });
        let store = with_best(&row.store, row.better);
        let (name, unit) = (&row.name, row.unit);
        println!("| {name} | {unit} | {store} | {bare} | {ratio} | {goal} | {met} |");
    }
}

fn with_best(values: &[f64], better: Better) -> String {
    if values.len() < 2 {
        return digits(median(values));
    }
    let best = values.iter().copied().reduce(match better {
        Better::High => f64::max,
        Better::Low => f64::min,
    });
    format!("{} ({})", digits(median(values)), digits(best.unwrap_or_default()))
}

/// The middle value, or the mean of the two in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let lower = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    f64::midpoint(lower, upper)
}

fn digits(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
