//! Prometheus' text format 0.0.4, for clients that do not take OpenMetrics.

/// Makes the plain text of OpenMetrics text. The series are the same. Families have the names and
/// types that the older format has, which knows no units and no end.
pub(crate) fn plain_text(open: &str) -> String {
    let mut plain = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ').map(|(_, words)| words);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            if let Some(help) = help.take() {
                plain.extend(["# HELP ", name, suffix, " ", help, "\n"]);
            }
            plain.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            plain.extend([line, "\n"]);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_the_names_of_their_series() {
        let open = "# HELP x_seconds Time.\n# TYPE x_seconds counter\n# UNIT x_seconds seconds\n\
                    x_seconds_total{a=\"# b\"} 1.5\n# HELP build It.\n# TYPE build info\n\
                    build_info{v=\"1\"} 1\n# HELP g G.\n# TYPE g gauge\ng 2\n# EOF\n";
        let plain = "# HELP x_seconds_total Time.\n# TYPE x_seconds_total counter\n\
                     x_seconds_total{a=\"# b\"} 1.5\n# HELP build_info It.\n\
                     # TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n# HELP g G.\n# TYPE g gauge\ng 2\n";
        assert_eq!(plain_text(open), plain);
    }
}
