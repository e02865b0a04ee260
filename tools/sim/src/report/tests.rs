use super::*;

fn report() -> Report {
    let table = Table {
        title: "What hosts got".to_owned(),
        file: "hosts".to_owned(),
        columns: vec![Column::new("host", ""), Column::new("throughput", "MB/s")],
        names: 1,
        rows: vec![
            vec!["a <b>".to_owned(), "12.5".to_owned()],
            vec!["c, \"d\"".to_owned(), "7.0".to_owned()],
        ],
        note: "reads & writes".to_owned(),
    };
    let lines = vec![
        Series { name: "a < b".to_owned(), points: vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 4.0)] },
        Series { name: "none".to_owned(), points: vec![] },
    ];
    let bars = Kind::Bars {
        groups: (0..12).map(|group| format!("a long name of group {group}")).collect(),
        series: vec![Series { name: "p99".to_owned(), points: vec![3.0; 12] }],
    };
    let chart = |file: &str, kind| {
        let (x, y) = (Axis::linear("time, s"), Axis::logarithmic("latency, us"));
        Chart { title: format!("Chart {file}"), file: file.to_owned(), x, y, kind }
    };
    Report {
        title: "A rack".to_owned(),
        about: vec!["Two hosts.".to_owned()],
        tables: vec![table],
        charts: vec![chart("lines", Kind::Lines(lines)), chart("bars", bars)],
        scenario: "seed = 1 # <1>\n".to_owned(),
    }
}

/// Checks that each element of HTML or SVG is closed in the right order.
fn check_nesting(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in text.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        let name = tag.split([' ', '/', '\n']).next().unwrap();
        if let Some(end) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(end), "{open:?}");
        } else if !tag.ends_with('/') && !tag.starts_with('!') && name != "meta" {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let page = report().html();
    check_nesting(&page);
    for foreign in ["http:", "https:", "<script", "<link", "@import", "url(", "src="] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("prefers-color-scheme:dark"), "light and dark");
    assert!(page.find("<table").unwrap() < page.find("<svg").unwrap(), "tables come first");
    assert!(page.contains("a &lt;b&gt;") && page.contains("# &lt;1&gt;"), "{page}");
}

#[test]
fn a_chart_alone_has_its_colours_and_is_well_formed() {
    for chart in report().charts {
        let svg = chart.svg();
        check_nesting(&svg);
        assert!(svg.contains("--s0:") && svg.contains("latency, us"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

#[test]
fn every_series_has_a_line_or_bars_and_a_name_in_the_legend() {
    let charts = report().charts;
    let lines = charts[0].svg();
    assert_eq!(lines.matches("<polyline").count(), 2);
    assert!(lines.contains("a &lt; b"));
    let bars = charts[1].svg();
    assert_eq!(bars.matches("<rect class=\"f s4\"").count(), 12 + 1, "the bars, and the legend's");
    assert!(bars.contains("rotate(-20)"), "long names do not run into each other");
}

#[test]
fn tables_are_text_with_columns_and_csv_with_quotes() {
    let table = &report().tables[0];
    assert_eq!(
        table.text(),
        "What hosts got\nhost    throughput, MB/s\na <b>               12.5\nc, \"d\"               7.0\n(reads & writes)\n"
    );
    assert_eq!(table.csv(), "host,\"throughput, MB/s\"\r\na <b>,12.5\r\n\"c, \"\"d\"\"\",7.0\r\n");
}

#[test]
fn a_line_of_a_million_points_stays_small() {
    let points = (0..1_000_000).map(|x| (f64::from(x), f64::from(x % 100))).collect();
    let mut chart = report().charts.remove(0);
    chart.kind = Kind::Lines(vec![Series { name: "x".to_owned(), points }]);
    assert!(chart.svg().len() < 40_000);
}
