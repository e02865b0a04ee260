//! Colours and styles, of charts and of the page.

/// The colours of series: the palette of Okabe and Ito, whose colours people with any kind of colour blindness can
/// distinguish, in the order in which neighbours differ most, and in tints for a dark screen. Lines differ in their
/// dashes too.
pub(super) const COLOURS: &str = "\
:root{--back:#fff;--text:#1b1f24;--dim:#57606a;--rule:#d8dee4;--soft:#f6f8fa;\
--s0:#0072b2;--s1:#d55e00;--s2:#009e73;--s3:#cc79a7;--s4:#e69f00;--s5:#56b4e9;--s6:#6b6b6b;--s7:#8c6bb1}\
@media(prefers-color-scheme:dark){:root{--back:#14171a;--text:#e6e9ec;--dim:#9aa4ae;--rule:#333a41;\
--soft:#1c2126;--s0:#56b4e9;--s1:#ff8c42;--s2:#2fc49a;--s3:#e3a3c7;--s4:#f0c23c;--s5:#9ad4f5;\
--s6:#b0b0b0;--s7:#b79ee0}}\
.t{fill:var(--dim);font:12px system-ui,sans-serif}\
.h{fill:var(--text);font:13px system-ui,sans-serif}\
.g{stroke:var(--rule);stroke-width:1}.a{stroke:var(--dim);stroke-width:1}\
.l{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}.f{fill:var(--c);stroke:none}\
.s0{--c:var(--s0)}.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}\
.s4{--c:var(--s4)}.s5{--c:var(--s5)}.s6{--c:var(--s6)}.s7{--c:var(--s7)}\
.l.s1,.l.s5{stroke-dasharray:7 3}.l.s2,.l.s6{stroke-dasharray:2 3}.l.s3,.l.s7{stroke-dasharray:9 3 2 3}";

/// The style of the page.
pub(super) const PAGE: &str = "\
body{margin:0;background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif}\
main{max-width:62rem;margin:0 auto;padding:2rem 1.2rem 4rem}\
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .6rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}\
p{margin:.3rem 0;max-width:46rem}.note{color:var(--dim);font-size:.9rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:.3rem .8rem;border-bottom:1px solid var(--rule);white-space:nowrap;text-align:right}\
thead th{border-bottom:2px solid var(--dim);font-weight:600;vertical-align:bottom}\
thead small{display:block;font-weight:400;color:var(--dim)}\
.n{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:4rem}tbody tr:nth-child(even){background:var(--soft)}tbody th{font-weight:500}\
.chart{width:100%;height:auto;display:block}\
details{margin-top:2.5rem}summary{cursor:pointer}\
pre{background:var(--soft);padding:1rem;overflow-x:auto;font-size:.85rem;line-height:1.4}\
@media print{details{display:none}}";

/// Returns the class of a series by its number.
pub(super) const fn class(number: usize) -> &'static str {
    match number % 8 {
        0 => "s0",
        1 => "s1",
        2 => "s2",
        3 => "s3",
        4 => "s4",
        5 => "s5",
        6 => "s6",
        _ => "s7",
    }
}
