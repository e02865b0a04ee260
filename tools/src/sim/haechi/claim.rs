//! What the paper says of a number, beside ours.

use std::fmt::Write as _;

/// The bounds within which a number of ours is the paper's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    /// This number, but for a part of it.
    Near(f64, f64),
    /// This number, but for so much.
    Within(f64, f64),
    /// At most this number.
    AtMost(f64),
    /// At least this number.
    AtLeast(f64),
}

impl Bound {
    /// Tells whether a number is within the bounds.
    fn holds(self, number: f64) -> bool {
        match self {
            Self::Near(of, part) => (number - of).abs() <= of.abs() * part,
            Self::Within(of, by) => (number - of).abs() <= by,
            Self::AtMost(most) => number <= most,
            Self::AtLeast(least) => number >= least,
        }
    }

    /// Writes the tolerance.
    fn text(self, unit: Unit) -> String {
        match self {
            Self::Near(_, part) => format!("+-{} %", part * 100.0),
            Self::Within(_, by) => format!("+-{}", unit.text(by)),
            Self::AtMost(most) => format!("<= {}", unit.text(most)),
            Self::AtLeast(least) => format!(">= {}", unit.text(least)),
        }
    }
}

/// The unit in which a number is shown.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    /// Thousands of I/Os.
    Kilo,
    /// Percent; the number itself is a part of 1.
    Percent,
    /// Pieces.
    Count,
    /// Times as much.
    Times,
}

impl Unit {
    fn text(self, number: f64) -> String {
        match self {
            Self::Kilo => format!("{:.1} K", number / 1e3),
            Self::Percent if number.abs() < 0.01 => format!("{:.3} %", number * 100.0),
            Self::Percent => format!("{:.2} %", number * 100.0),
            Self::Count => format!("{number:.0}"),
            Self::Times => format!("{number:.2} x"),
        }
    }
}

/// A number of the paper's, beside ours.
#[derive(Debug)]
pub(super) struct Claim {
    what: String,
    paper: String,
    ours: f64,
    unit: Unit,
    bound: Bound,
    /// The bounds within which ours is known to differ, and why it does.
    known: Option<(Bound, &'static str)>,
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Holds,
    /// Ours differs as it is declared.
    Differs,
    /// Ours is neither the paper's nor what is declared.
    Off,
}

impl Claim {
    /// Puts a number of ours beside what the paper says.
    pub(super) fn new(
        what: impl Into<String>,
        paper: impl Into<String>,
        ours: f64,
        unit: Unit,
        bound: Bound,
    ) -> Self {
        Self { what: what.into(), paper: paper.into(), ours, unit, bound, known: None }
    }

    /// Declares in which way ours differs, and why.
    pub(super) fn known(self, bound: Bound, why: &'static str) -> Self {
        Self { known: Some((bound, why)), ..self }
    }

    fn verdict(&self) -> Verdict {
        match self.known {
            _ if self.bound.holds(self.ours) => Verdict::Holds,
            Some((bound, _)) if bound.holds(self.ours) => Verdict::Differs,
            _ => Verdict::Off,
        }
    }
}

/// Writes claims as a table, with the reasons of those that differ, and with their count.
pub(super) fn table(claims: &[Claim]) -> String {
    let mut text = format!("{:54} {:>16} {:>11} {:>13}\n", "", "paper", "ours", "tolerance");
    let mut reasons: Vec<&str> = Vec::new();
    for claim in claims {
        let (ours, tolerance) = (claim.unit.text(claim.ours), claim.bound.text(claim.unit));
        // Writing to a string does not fail.
        let _ = write!(text, "{:54} {:>16} {ours:>11} {tolerance:>13}  ", claim.what, claim.paper);
        match (claim.verdict(), claim.known) {
            (Verdict::Holds, _) => text += "holds\n",
            (Verdict::Differs, Some((_, why))) => {
                let place = reasons.iter().position(|reason| *reason == why);
                let place = place.unwrap_or_else(|| {
                    reasons.push(why);
                    reasons.len() - 1
                });
                let _ = writeln!(text, "differs [{}]", place + 1);
            }
            (Verdict::Differs | Verdict::Off, _) => text += "OFF\n",
        }
    }
    for (reason, number) in reasons.iter().zip(1..) {
        let _ = writeln!(text, "\n[{number}] {reason}");
    }
    let count = |verdict| claims.iter().filter(|claim| claim.verdict() == verdict).count();
    let (hold, differ) = (count(Verdict::Holds), count(Verdict::Differs));
    let _ = write!(text, "\n{hold} hold, {differ} differ as declared");
    match count(Verdict::Off) {
        0 => text.push('\n'),
        off => text += &format!(", {off} neither hold nor differ as declared\n"),
    }
    text
}

/// Lists the claims that neither hold nor differ as declared.
pub(super) fn off(claims: &[Claim]) -> Vec<String> {
    let off = claims.iter().filter(|claim| claim.verdict() == Verdict::Off);
    off.map(|claim| {
        let (ours, paper) = (claim.unit.text(claim.ours), &claim.paper);
        format!("{}: {ours}, in the paper: {paper}", claim.what)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(ours: f64) -> Claim {
        let near = Bound::Near(7080e3, 0.005);
        Claim::new("C1 in 30 s", "7080 K", ours, Unit::Kilo, near)
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
        assert_eq!(off(&claims), ["C1 in 30 s: 0.0 K, in the paper: 7080 K"]);
    }

    #[test]
    fn bounds_are_what_their_text_says() {
        for (bound, inside, outside, text) in [
            (Bound::Near(0.5, 0.1), 0.45, 0.44, "+-10 %"),
            (Bound::Within(0.5, 0.02), 0.48, 0.47, "+-2.00 %"),
            (Bound::AtMost(0.001), 0.001, 0.002, "<= 0.100 %"),
            (Bound::AtLeast(0.05), 0.05, 0.04, ">= 5.00 %"),
        ] {
            assert!(bound.holds(inside + 1e-12) || bound.holds(inside), "{text}");
            assert!(!bound.holds(outside), "{text}");
            assert_eq!(bound.text(Unit::Percent), text);
        }
    }
}
