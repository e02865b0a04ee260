//! A published number compared with ours.

use std::fmt::Write as _;

/// The bounds within which a number of ours is the source's.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// This number, but for a part of it.
    Near(f64, f64),
    /// This number, but for so much.
    Within(f64, f64),
    /// From the first number to the second.
    Between(f64, f64),
    /// At most this number.
    AtMost(f64),
    /// At least this number.
    AtLeast(f64),
}

impl Bound {
    /// Returns whether a number is within the bounds.
    fn holds(self, number: f64) -> bool {
        match self {
            Self::Near(of, part) => (number - of).abs() <= of.abs() * part,
            Self::Within(of, by) => (number - of).abs() <= by,
            Self::Between(least, most) => (least..=most).contains(&number),
            Self::AtMost(most) => number <= most,
            Self::AtLeast(least) => number >= least,
        }
    }

    /// Returns the least and the most number within the bounds.
    fn ends(self) -> (f64, f64) {
        match self {
            Self::Near(of, part) => (of - of.abs() * part, of + of.abs() * part),
            Self::Within(of, by) => (of - by, of + by),
            Self::Between(least, most) => (least, most),
            Self::AtMost(most) => (f64::NEG_INFINITY, most),
            Self::AtLeast(least) => (least, f64::INFINITY),
        }
    }

    /// Returns whether the two bounds together cover every number from `least` to `most`.
    fn cover(self, other: Self, (least, most): (f64, f64)) -> bool {
        let (one, other) = (self.ends(), other.ends());
        let (first, second) = if one.0 <= other.0 { (one, other) } else { (other, one) };
        let end = if second.0 <= first.1 { first.1.max(second.1) } else { first.1 };
        first.0 <= least && end >= most
    }

    /// Writes the tolerance.
    fn text(self, unit: Unit) -> String {
        match self {
            Self::Near(_, part) => format!("+-{} %", round(part * 100.0)),
            Self::Within(_, by) => format!("+-{}", unit.text(by)),
            Self::Between(least, most) => format!("{}..{}", unit.number(least), unit.text(most)),
            Self::AtMost(most) => format!("<= {}", unit.text(most)),
            Self::AtLeast(least) => format!(">= {}", unit.text(least)),
        }
    }
}

/// Rounds to a thousandth, so that a product prints without the digits of its error.
fn round(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

/// The unit in which a number is shown.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// Thousands of I/Os.
    Kilo,
    /// Percent; the number itself is a part of 1.
    Percent,
    /// Pieces.
    Count,
    /// Times as much.
    Times,
    /// A unit of this name, with this number of digits behind the point.
    Of(usize, &'static str),
}

impl Unit {
    /// Returns the smallest and largest possible number of the unit: 0 to 1 for a percentage.
    const fn all(self) -> (f64, f64) {
        match self {
            Self::Percent => (0.0, 1.0),
            Self::Kilo | Self::Count | Self::Times | Self::Of(..) => (0.0, f64::INFINITY),
        }
    }

    /// Writes a number with its unit.
    fn text(self, number: f64) -> String {
        match self {
            Self::Kilo => format!("{:.1} K", number / 1e3),
            Self::Percent if number != 0.0 && number.abs() < 0.01 => {
                format!("{:.3} %", number * 100.0)
            }
            Self::Percent => format!("{:.2} %", number * 100.0),
            Self::Count => format!("{number:.0}"),
            Self::Times => format!("{number:.2} x"),
            Self::Of(digits, "") => format!("{number:.digits$}"),
            Self::Of(digits, name) => format!("{number:.digits$} {name}"),
        }
    }

    /// Writes a number without its unit.
    fn number(self, number: f64) -> String {
        let text = self.text(number);
        text.split(' ').next().unwrap_or_default().to_owned()
    }
}

/// A number of a source's, beside ours.
#[derive(Clone, Debug)]
pub struct Claim {
    what: String,
    source: String,
    ours: f64,
    unit: Unit,
    bound: Bound,
    /// The bounds within which ours is known to differ, and why it does.
    known: Option<(Bound, &'static str)>,
}

/// The result of judging a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ours is the source's.
    Holds,
    /// Ours differs as it is declared.
    Differs,
    /// Our number matches neither the source nor the declared difference.
    Off,
}

impl Claim {
    /// Compares our number with the source's.
    pub fn new(
        what: impl Into<String>,
        source: impl Into<String>,
        ours: f64,
        unit: Unit,
        bound: Bound,
    ) -> Self {
        Self { what: what.into(), source: source.into(), ours, unit, bound, known: None }
    }

    /// Compares a part of 1, shown in percent.
    pub fn percent(
        what: impl Into<String>,
        source: impl Into<String>,
        ours: f64,
        bound: Bound,
    ) -> Self {
        Self::new(what, source, ours, Unit::Percent, bound)
    }

    /// Compares a number of pieces.
    pub fn count(
        what: impl Into<String>,
        source: impl Into<String>,
        ours: f64,
        bound: Bound,
    ) -> Self {
        Self::new(what, source, ours, Unit::Count, bound)
    }

    /// Compares a factor.
    pub fn times(
        what: impl Into<String>,
        source: impl Into<String>,
        ours: f64,
        bound: Bound,
    ) -> Self {
        Self::new(what, source, ours, Unit::Times, bound)
    }

    /// Compares a number of I/Os, shown in thousands.
    pub fn kilo(
        what: impl Into<String>,
        source: impl Into<String>,
        ours: f64,
        bound: Bound,
    ) -> Self {
        Self::new(what, source, ours, Unit::Kilo, bound)
    }

    /// Declares in which way ours differs, and why. Bounds that no number can be outside of are a fault of the
    /// figure.
    pub fn known(self, bound: Bound, why: &'static str) -> Self {
        debug_assert!(
            !self.bound.cover(bound, self.unit.all()),
            "{}: each possible number holds or differs as declared",
            self.what
        );
        Self { known: Some((bound, why)), ..self }
    }

    /// Returns the name of the number.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns the number as the source states it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Writes our number with its unit.
    pub fn ours(&self) -> String {
        self.unit.text(self.ours)
    }

    /// Writes the tolerance.
    pub fn tolerance(&self) -> String {
        self.bound.text(self.unit)
    }

    /// Returns the reason of a claim that differs as it is declared.
    pub fn reason(&self) -> Option<&'static str> {
        let (_, why) = self.known?;
        (self.verdict() == Verdict::Differs).then_some(why)
    }

    /// Returns whether the number is farther on the wrong side of its bounds, or nearer to them, than another of
    /// the same bounds.
    pub fn is_farther(&self, other: &Self) -> bool {
        let (least, most) = self.bound.ends();
        let room = |ours: f64| (ours - least).min(most - ours);
        room(self.ours) < room(other.ours)
    }

    /// Judges the number.
    pub fn verdict(&self) -> Verdict {
        match self.known {
            _ if self.bound.holds(self.ours) => Verdict::Holds,
            Some((bound, _)) if bound.holds(self.ours) => Verdict::Differs,
            _ => Verdict::Off,
        }
    }
}

/// Claims with the reasons for their differences, each reason once.
#[derive(Debug)]
pub struct Judged<'a> {
    /// Each claim, and its verdict as it is printed: the reason's number follows `differs`.
    pub rows: Vec<(&'a Claim, String)>,
    /// The reasons; the first has the number 1.
    pub reasons: Vec<&'static str>,
}

impl<'a> Judged<'a> {
    /// Judges claims.
    pub fn new(claims: &'a [Claim]) -> Self {
        let mut reasons: Vec<&'static str> = Vec::new();
        let mut rows = Vec::new();
        for claim in claims {
            let verdict = match (claim.verdict(), claim.reason()) {
                (Verdict::Holds, _) => "holds".to_owned(),
                (Verdict::Differs, Some(why)) => {
                    let place = reasons.iter().position(|reason| *reason == why);
                    let place = place.unwrap_or_else(|| {
                        reasons.push(why);
                        reasons.len() - 1
                    });
                    format!("differs [{}]", place + 1)
                }
                (Verdict::Differs | Verdict::Off, _) => "OFF".to_owned(),
            };
            rows.push((claim, verdict));
        }
        Self { rows, reasons }
    }
}

/// Counts the claims of a verdict.
pub fn count(claims: &[Claim], verdict: Verdict) -> usize {
    claims.iter().filter(|claim| claim.verdict() == verdict).count()
}

/// Writes how many claims hold, differ, and do neither.
pub fn summary(claims: &[Claim]) -> String {
    let [hold, differ, off] =
        [Verdict::Holds, Verdict::Differs, Verdict::Off].map(|verdict| count(claims, verdict));
    let mut text = format!("{hold} hold, {differ} differ as declared");
    if off > 0 {
        // Writing to a string does not fail.
        let _ = write!(text, ", {off} neither hold nor differ as declared");
    }
    text
}

/// Writes claims as a table, with the reasons for differences and their count.
pub fn table(claims: &[Claim]) -> String {
    let judged = Judged::new(claims);
    let mut text = format!("{:54} {:>16} {:>11} {:>13}\n", "", "source", "ours", "tolerance");
    for (claim, verdict) in &judged.rows {
        let (ours, tolerance) = (claim.ours(), claim.tolerance());
        let _ = writeln!(
            text,
            "{:54} {:>16} {ours:>11} {tolerance:>13}  {verdict}",
            claim.what, claim.source
        );
    }
    for (reason, number) in judged.reasons.iter().zip(1..) {
        let _ = writeln!(text, "\n[{number}] {}", wrapped(reason));
    }
    text + "\n" + &summary(claims) + "\n"
}

/// Breaks a reason into lines of a terminal's width, each but the first behind its number.
fn wrapped(reason: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in reason.split_whitespace() {
        if column > 0 && column + word.len() >= 92 {
            text.push_str("\n    ");
            column = 0;
        } else if column > 0 {
            text.push(' ');
        }
        text.push_str(word);
        column += word.len() + 1;
    }
    text
}

/// Lists the claims that neither hold nor differ as declared.
pub fn off(claims: &[Claim]) -> Vec<String> {
    let off = claims.iter().filter(|claim| claim.verdict() == Verdict::Off);
    off.map(|claim| format!("{}: {}, in the source: {}", claim.what, claim.ours(), claim.source))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(ours: f64) -> Claim {
        let near = Bound::Near(7080e3, 0.005);
        Claim::kilo("C1 in 30 s", "7080 K", ours, near)
            .known(Bound::Near(5880e3, 0.01), "out of reach")
    }

    #[test]
    fn a_number_holds_differs_as_declared_or_is_off() {
        for (ours, verdict) in [
            (7080e3, Verdict::Holds),
            (7046e3, Verdict::Holds),
            (7030e3, Verdict::Off),
            (5900e3, Verdict::Differs),
            (5800e3, Verdict::Off),
            (f64::NAN, Verdict::Off),
        ] {
            assert_eq!(claim(ours).verdict(), verdict, "{ours}");
        }
        let claims = [claim(7080e3), claim(5900e3), claim(1.0)];
        let text = table(&claims);
        assert!(text.contains("7080.0 K"), "{text}");
        assert!(text.contains("differs [1]\n"), "{text}");
        assert_eq!(text.matches("[1] out of reach\n").count(), 1, "{text}");
        assert!(text.contains("1 hold, 1 differ as declared, 1 neither"), "{text}");
        assert_eq!(off(&claims), ["C1 in 30 s: 0.0 K, in the source: 7080 K"]);
    }

    #[test]
    fn a_claim_that_no_number_fails_is_found() {
        let most = f64::INFINITY;
        for (bound, known, all, covers) in [
            (Bound::AtLeast(1.0), Bound::Between(0.0, 1.0), Unit::Times.all(), true),
            (Bound::AtLeast(1.0), Bound::Between(0.0, 0.98), Unit::Times.all(), false),
            (Bound::AtMost(1.0), Bound::AtLeast(0.5), Unit::Times.all(), true),
            (Bound::AtLeast(85.0), Bound::Between(30.0, 130.0), (0.0, most), false),
            (Bound::Between(0.43, 0.8), Bound::Between(-3.0, 1.0), Unit::Percent.all(), true),
            (Bound::Between(0.0, 0.5), Bound::Between(0.6, 1.0), Unit::Percent.all(), false),
            (Bound::Within(0.5, 0.25), Bound::Near(0.1, 0.2), Unit::Percent.all(), false),
        ] {
            assert_eq!(bound.cover(known, all), covers, "{bound:?} {known:?}");
            assert_eq!(known.cover(bound, all), covers, "{known:?} {bound:?}");
        }
    }

    #[test]
    #[should_panic(expected = "each possible number")]
    fn a_claim_that_no_number_fails_cannot_be_made() {
        let claim = Claim::times("x", "worse", 1.1, Bound::AtLeast(1.0));
        _ = claim.known(Bound::Between(0.0, 1.0), "why");
    }

    #[test]
    fn bounds_are_what_their_text_says() {
        for (bound, inside, outside, text) in [
            (Bound::Near(0.5, 0.1), 0.45, 0.44, "+-10 %"),
            (Bound::Within(0.5, 0.02), 0.48, 0.47, "+-2.00 %"),
            (Bound::Between(0.5, 0.6), 0.6, 0.61, "50.00..60.00 %"),
            (Bound::AtMost(0.001), 0.001, 0.002, "<= 0.100 %"),
            (Bound::AtLeast(0.05), 0.05, 0.04, ">= 5.00 %"),
        ] {
            assert!(bound.holds(inside + 1e-12) || bound.holds(inside), "{text}");
            assert!(!bound.holds(outside), "{text}");
            assert_eq!(bound.text(Unit::Percent), text);
        }
        assert_eq!(Bound::Near(100.0, 0.07).text(Unit::Count), "+-7 %");
    }

    #[test]
    fn a_long_reason_is_broken_into_lines() {
        let lines = wrapped(&"word ".repeat(60));
        assert!(lines.lines().count() == 4 && lines.lines().all(|line| line.len() < 100));
    }
}
