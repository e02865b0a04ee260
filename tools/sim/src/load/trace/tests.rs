use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

const SETUP: TraceSetup =
    TraceSetup { format: Format::Msr, speed: 1.0, within: 1 << 30, most: 1 << 20, begin: Nanos(0) };

/// Writes a trace to a file, which goes with the folder.
fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

/// Returns all accesses of a trace with their times, and its fault.
fn read(text: &str, setup: TraceSetup) -> (Vec<(u64, Access)>, Option<TraceError>) {
    let (_folder, path) = written(text);
    let (mut trace, fault) = Trace::open(&path, setup).unwrap();
    let mut all = Vec::new();
    while let Arrival::At(at, access) = trace.next(Nanos(0)) {
        all.push((at.0, access));
    }
    (all, fault.get())
}

const MSR: &str = "128166372003061629,hm,1,Read,383496192,32768,413\n\
                   128166372003071629,hm,1,Write,2822144,512,8\n";

#[test]
fn a_trace_of_msr_cambridge_keeps_times_places_and_kinds() {
    let (all, fault) = read(MSR, SETUP);
    let first = Access { write: false, offset: 383_496_192, length: 32_768 };
    let second = Access { write: true, offset: 2_822_144, length: 512 };
    assert_eq!(all.iter().map(|(_, access)| *access).collect::<Vec<_>>(), [first, second]);
    assert_eq!(all[0].0, 0);
    // 10,000 ticks of 100 ns, but for the rounding of a time since 1601.
    assert!(all[1].0.abs_diff(1_000_000) < 4_000, "{}", all[1].0);
    assert_eq!(fault, None);
}

#[test]
fn a_trace_of_snia_s_keeps_times_places_and_kinds() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                1456329600.020286,0.000279,R,0,4096,8192\n\n\
                1456329600.021286,0.000279,W,0,1024,512\n";
    let (all, fault) = read(text, TraceSetup { format: Format::Snia, speed: 2.0, ..SETUP });
    assert_eq!(all[0], (0, Access { write: false, offset: 4096, length: 8192 }));
    assert!(all[1].0.abs_diff(500_000) < 1_000 && all[1].1.write, "{all:?}");
    assert_eq!((all.len(), fault), (2, None));
}

#[test]
fn a_line_that_is_wrong_is_named_with_what_would_be_right() {
    for (line, says) in [
        ("1,hm,1,Read,7", "5 columns instead of 6 or more"),
        ("x,hm,1,Read,0,512,1", "the Timestamp `x` is not a number"),
        ("1,hm,1,Erase,0,512,1", "neither a read nor a write"),
        ("1,hm,1,Read,-5,512,1", "the Offset `-5` is not a number"),
    ] {
        let (all, fault) = read(&format!("{MSR}{line}\n"), SETUP);
        let error = fault.unwrap().to_string();
        assert_eq!(all.len(), 2, "what is before it is used");
        assert!(error.contains("line 3") && error.contains(says), "{error}");
        assert!(error.contains("is like 128166372003061629"), "{error}");
    }
}

#[test]
fn a_file_that_is_missing_or_of_another_format_is_refused_at_once() {
    let missing = Trace::open(Path::new("/nowhere/trace.csv"), SETUP).unwrap_err().to_string();
    assert!(missing.contains("/nowhere/trace.csv"), "{missing}");
    let (_folder, path) = written(MSR);
    let other = Trace::open(&path, TraceSetup { format: Format::Snia, ..SETUP }).unwrap_err();
    assert!(other.to_string().contains("line 1"), "{other}");
    let (_folder, path) = written(&"\u{1f}\u{8b}\n".repeat(9));
    assert!(Trace::open(&path, SETUP).is_err(), "a compressed file");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn accesses_are_whole_blocks_within_the_namespace_and_in_order(
        lines in prop::collection::vec((0_u64..1 << 40, any::<bool>(), 0_u64..1 << 44, 0_u64..1 << 22), 1..40),
        blocks in 1_u64..100_000,
        most in 1_u32..4096,
    ) {
        let line = |(time, write, offset, size): &(u64, bool, u64, u64)| {
            let kind = if *write { "Write" } else { "Read" };
            format!("{time},h,0,{kind},{offset},{size},1\n")
        };
        let text: String = lines.iter().map(line).collect();
        let setup = TraceSetup { within: blocks * 512, most: most * 512, ..SETUP };
        // The number of parts of an access is bounded by the size of the blocks that it is parted into.
        let (all, fault) = read(&text, setup);
        prop_assert_eq!(fault, None);
        prop_assert!(all.iter().map(|(at, _)| at).is_sorted());
        let bytes: u64 = all.iter().map(|(_, access)| u64::from(access.length)).sum();
        let wanted: u64 = lines
            .iter()
            .map(|(_, _, offset, size)| (offset + size.max(&1)).div_ceil(512) * 512 - offset / 512 * 512)
            .sum();
        prop_assert_eq!(bytes, wanted);
        for (_, access) in &all {
            prop_assert!(access.length % 512 == 0 && access.length <= setup.most);
            prop_assert!(access.offset + u64::from(access.length) <= setup.within);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let (_folder, path) = written(&text);
        if let Ok((mut trace, _)) = Trace::open(&path, SETUP) {
            while !matches!(trace.next(Nanos(0)), Arrival::Never) {}
        }
    }
}
