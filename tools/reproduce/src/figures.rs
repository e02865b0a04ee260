//! The figures: reproducible ones, planned ones, and former names.

use anyhow::{Context as _, bail};

use super::figure::Figure;
use super::{e2e, fahrrad, haechi, intelliqos};

/// The figures of disks.
const DISKS: &[Figure] = &[
    Figure::new(
        "fahrrad-3",
        20,
        "reservations on a disk: two media streams, bursty transactions, a background stream (F3)",
        fahrrad::figure,
    ),
    Figure::new(
        "intelliqos-2",
        5,
        "two users of one disk: deadlines, batches and containers (I3)",
        intelliqos::run,
    ),
];

/// Returns all figures, in the order of their names.
pub(super) fn all() -> impl Iterator<Item = &'static Figure> {
    e2e::FIGURES.iter().chain(DISKS).chain(haechi::FIGURES)
}

/// Names that figures had, and have.
const RENAMED: [(&str, &str); 7] = [
    ("fig2", "intelliqos-2"),
    ("fig3", "fahrrad-3"),
    ("fig8", "e2e-8"),
    ("fig9", "e2e-9"),
    ("fig10", "e2e-10"),
    ("fig14", "e2e-14"),
    ("fig15", "e2e-15"),
];

/// A figure of a source that no command makes.
#[derive(Debug)]
pub(super) struct Absent {
    /// The name that it will have.
    pub(super) name: &'static str,
    /// Its content.
    pub(super) about: &'static str,
    pub(super) wants: &'static str,
}

/// The figures of the sources that are not reproduced yet.
pub(super) const ABSENT: &[Absent] = &[Absent {
    name: "intelliqos-3",
    about: "response times of TPC-C's transactions, with deadlines and with containers",
    wants: "a model of the database and its clients, whose requests wait for each other",
}];

/// Finds a figure by its name.
///
/// # Errors
///
/// There is none of that name; the error lists the existing ones, or the new name.
pub(super) fn find(name: &str) -> anyhow::Result<&'static Figure> {
    if let Some((_, now)) = RENAMED.iter().find(|(before, _)| *before == name) {
        bail!("the figure `{name}` is called `{now}` now: run `reproduce {now}`");
    }
    if let Some(absent) = ABSENT.iter().find(|absent| absent.name == name) {
        bail!("`{name}` ({}) is not built yet: it wants {}", absent.about, absent.wants);
    }
    all().find(|figure| figure.name == name).with_context(|| {
        let names: Vec<&str> = all().map(|figure| figure.name).collect();
        format!("there is no figure `{name}`: choose one of {}", names.join(", "))
    })
}

/// Finds the figures that are named: `all`, a source (`haechi`), or a figure (`haechi-9`). Each is
/// found once, in the order in which all figures are.
///
/// # Errors
///
/// A name is none of these.
pub(super) fn named(names: &[String]) -> anyhow::Result<Vec<&'static Figure>> {
    let mut wanted: Vec<&str> = Vec::new();
    for name in names {
        let of_source = |figure: &&Figure| {
            figure.name.rsplit_once('-').is_some_and(|(source, _)| source == name)
        };
        let found: Vec<&str> = match name.as_str() {
            "all" => all().map(|figure| figure.name).collect(),
            _ if all().any(|figure| of_source(&figure)) => {
                all().filter(of_source).map(|figure| figure.name).collect()
            }
            name => vec![find(name)?.name],
        };
        wanted.extend(found);
    }
    Ok(all().filter(|figure| wanted.contains(&figure.name)).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_figure_that_is_not_there_names_those_that_are() {
        let error = find("fig0").unwrap_err().to_string();
        assert!(all().all(|figure| error.contains(figure.name)), "{error}");
    }

    #[test]
    fn an_old_name_says_the_new_one() {
        for (before, now) in RENAMED {
            let error = find(before).unwrap_err().to_string();
            assert!(error.contains(&format!("run `reproduce {now}`")), "{error}");
            assert_eq!(find(now).unwrap().name, now);
        }
        assert!(find("intelliqos-3").unwrap_err().to_string().contains("is not built yet"));
    }

    #[test]
    fn names_are_figures_sources_or_all_and_none_is_made_twice() {
        let names = |words: &[&str]| -> Vec<&str> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            named(&words).unwrap().iter().map(|figure| figure.name).collect()
        };
        assert_eq!(names(&["haechi-9", "e2e-8", "haechi-9"]), ["e2e-8", "haechi-9"]);
        assert_eq!(names(&["haechi"]).len(), haechi::FIGURES.len());
        assert_eq!(names(&["all", "e2e"]).len(), all().count());
        assert!(named(&["nothing".to_owned()]).is_err());
    }

    #[test]
    fn no_two_figures_have_a_name() {
        let names: Vec<&str> = all()
            .map(|figure| figure.name)
            .chain(ABSENT.iter().map(|absent| absent.name))
            .collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
