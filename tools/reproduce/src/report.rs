//! `reproduce report`: figures of the sources, each number beside ours; and docs/research/reproduction.md.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use sluice_sim::claim::{self, Claim, Judged, Verdict};
use sluice_sim::jobs;

use super::figure::{Figure, Length, Made};
use super::figures::{self, ABSENT};

/// Arguments of `reproduce report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The figures, separated by commas: names (`e2e-9`), sources (`haechi`) or `all`.
    #[arg(required = true, value_delimiter = ',')]
    figures: Vec<String>,
    /// Random seed: the same seed gives the same numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Make runs of reduced length: all figures take a few minutes.
    #[arg(long)]
    quick: bool,
    /// Write the printed text as a document (Markdown) to this file.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Write the figures' plots (SVG) to this folder.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// Makes figures on all processors, and puts them together.
///
/// # Errors
///
/// A name is not a figure's, a model refuses its scenario, or a file cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<Made> {
    let wanted = figures::named(&args.figures)?;
    let length = Length { seed: args.seed, scale: None, quick: args.quick };
    let made = all_of(&wanted, &length)?;
    let mut text = String::new();
    for (figure, made) in &made {
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "{}: {}\n\n{}", figure.name, figure.about, claim::table(&made.claims));
    }
    let claims: Vec<Claim> =
        made.iter().flat_map(|(_, made)| made.claims.iter().cloned()).collect();
    let _ = writeln!(text, "{} figures: {}", made.len(), claim::summary(&claims));
    if let Some(path) = &args.write {
        std::fs::write(path, document(&made, args))
            .with_context(|| format!("cannot write {}", path.display()))?;
        let _ = writeln!(text, "wrote {}", path.display());
    }
    if let Some(folder) = &args.plot {
        for (_, made) in &made {
            made.draw(folder)?;
        }
        let _ = writeln!(text, "wrote the plots to {}", folder.display());
    }
    let named = |(figure, made): &(&Figure, Made)| -> Vec<String> {
        made.off.iter().map(|off| format!("{}, {off}", figure.name)).collect()
    };
    let off = made.iter().flat_map(named).collect();
    Ok(Made { text, off, ..Made::default() })
}

/// Makes figures, on as many threads as there are processors, the longest ones first.
fn all_of(
    wanted: &[&'static Figure],
    length: &Length,
) -> anyhow::Result<Vec<(&'static Figure, Made)>> {
    let make = |figure: &&'static Figure, _: &mut dyn FnMut(f64)| {
        let made = figure.make(length).with_context(|| format!("{} failed", figure.name))?;
        Ok((*figure, made))
    };
    jobs::run_all(wanted, |figure| figure.weight, |figure| figure.name, make)?.into_iter().collect()
}

fn document(made: &[(&Figure, Made)], args: &Args) -> String {
    let mut command = format!("reproduce report {}", args.figures.join(","));
    if args.seed != 1 {
        command += &format!(" --seed {}", args.seed);
    }
    if args.quick {
        command += " --quick";
    }
    let mut text = format!(
        "# Reproduction\n\n\
         Each number of a figure of the [sources](sources.md) that a model reproduces, beside ours. A \
         number *holds* where it\n\
         is the source's within the tolerance, and *differs* where it is not, for the reason that is \
         given. The command fails\n\
         where a number does neither. [Models](models.md) describes the models.\n\n\
         A command prints this page: change the figures, not the page.\n\n\
         \x20   {command} --write docs/research/reproduction.md\n\n\
         ## All figures\n\n\
         | figure | what | hold | differ |\n|---|---|---|---|\n"
    );
    for (figure, made) in made {
        let [hold, differ] =
            [Verdict::Holds, Verdict::Differs].map(|verdict| claim::count(&made.claims, verdict));
        let _ =
            writeln!(text, "| [{0}](#{0}) | {1} | {hold} | {differ} |", figure.name, figure.about);
    }
    for (figure, made) in made {
        section(&mut text, figure, &made.claims);
    }
    text += "\n## Not reproduced yet\n\n| figure | what | wants |\n|---|---|---|\n";
    for absent in ABSENT {
        let _ = writeln!(text, "| {} | {} | {} |", absent.name, absent.about, absent.wants);
    }
    text
}

/// Writes a figure's part of the document.
fn section(text: &mut String, figure: &Figure, claims: &[Claim]) {
    let judged = Judged::new(claims);
    let about = figure.about;
    let _ = writeln!(
        text,
        "\n## {}\n\n{}: `reproduce {0} --plot DIR` draws it.\n",
        figure.name,
        upper(about)
    );
    *text += "| what | source | ours | tolerance | |\n|---|---|---|---|---|\n";
    for (claim, verdict) in &judged.rows {
        let (what, source) = (claim.what(), claim.source());
        let (ours, tolerance) = (claim.ours(), claim.tolerance());
        let _ = writeln!(text, "| {what} | {source} | {ours} | {tolerance} | {verdict} |");
    }
    for (reason, number) in judged.reasons.iter().zip(1..) {
        let words: Vec<&str> = reason.split_whitespace().collect();
        let _ = writeln!(text, "\n\\[{number}\\] {}", words.join(" "));
    }
}

/// Begins a text with a capital.
fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_sim::claim::Bound;

    static FIGURES: [Figure; 2] = [
        Figure::new("a-1", 1, "the first", |request| {
            let ours = f64::from(u8::try_from(request.seed)?);
            let claim = Claim::count("x", "7", ours, Bound::Within(7.0, 1.0));
            let claim = claim.known(Bound::AtMost(3.0), "it is\n    small");
            Ok(Made::of("title", vec![claim], []))
        }),
        Figure::new("b-2", 9, "the second", |_| anyhow::bail!("no such disk")),
    ];

    fn args(seed: u64, quick: bool) -> Args {
        Args { figures: vec!["all".to_owned()], seed, quick, write: None, plot: None }
    }

    #[test]
    fn the_document_has_each_number_its_verdict_and_its_reason() {
        let length = Length { seed: 2, scale: None, quick: true };
        let made = all_of(&[&FIGURES[0]], &length).unwrap();
        let text = document(&made, &args(2, true));
        for line in [
            "    reproduce report all --seed 2 --quick --write docs/research/reproduction.md",
            "| [a-1](#a-1) | the first | 0 | 1 |",
            "The first: `reproduce a-1 --plot DIR` draws it.",
            "| x | 7 | 2 | +-1 | differs [1] |",
            "\\[1\\] it is small",
            "## Not reproduced yet",
        ] {
            assert!(text.lines().any(|of| of == line), "{line}\n{text}");
        }
        assert!(ABSENT.iter().all(|absent| text.contains(&format!("| {} |", absent.name))));
    }

    #[test]
    fn a_figure_that_cannot_be_made_is_named() {
        let length = Length { seed: 7, scale: None, quick: false };
        let error = all_of(&[&FIGURES[0], &FIGURES[1]], &length).unwrap_err();
        assert_eq!(format!("{error:#}"), "b-2 failed: no such disk");
    }
}
