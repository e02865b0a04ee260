//! The page.

use std::fmt::Write as _;

use super::escape::escaped;
use super::{Report, Table, style};

/// Writes a report as one file.
pub(super) fn page(report: &Report) -> String {
    let title = escaped(&report.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{}{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        style::COLOURS,
        style::PAGE
    );
    for about in &report.about {
        // Writing to a string does not fail.
        let _ = writeln!(text, "<p>{}</p>", escaped(about));
    }
    report.tables.iter().for_each(|of| table(&mut text, of));
    for chart in &report.charts {
        let _ = writeln!(text, "<h2>{}</h2>\n{}", escaped(&chart.title), chart.inline());
    }
    if !report.scenario.is_empty() {
        let scenario = escaped(&report.scenario);
        let _ = writeln!(
            text,
            "<details>\n<summary>The scenario</summary>\n<pre>{scenario}</pre>\n</details>"
        );
    }
    text + "</main>\n</body>\n</html>\n"
}

fn table(text: &mut String, table: &Table) {
    let _ = write!(
        text,
        "<h2>{}</h2>\n<div class=\"wide\"><table>\n<thead><tr>",
        escaped(&table.title)
    );
    let side = |column: usize| if column < table.names { " class=\"n\"" } else { "" };
    for (number, column) in table.columns.iter().enumerate() {
        let unit = match column.unit.as_str() {
            "" => String::new(),
            unit => format!("<small>{}</small>", escaped(unit)),
        };
        let _ =
            write!(text, "<th scope=\"col\"{}>{}{unit}</th>", side(number), escaped(&column.name));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        text.push_str("<tr>");
        for (number, cell) in row.iter().enumerate() {
            let cell = escaped(cell);
            let _ = match number < table.names {
                true => write!(text, "<th scope=\"row\" class=\"n\">{cell}</th>"),
                false => write!(text, "<td>{cell}</td>"),
            };
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    if !table.note.is_empty() {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", escaped(&table.note));
    }
}
