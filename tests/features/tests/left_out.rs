//! URIs whose feature was left out of the build.
#![allow(clippy::unwrap_used)]

use byway::ErrorKind;

#[test]
fn uri_of_a_feature_left_out_is_refused_with_the_feature_s_name() {
    let folder = std::env::temp_dir();
    let folder = folder.to_str().unwrap();
    for (uri, feature) in [
        ("tcp://localhost/nqn.2026-01.org.example:disk", "tcp"),
        ("vfio-user:/run/byway.sock", "vfio"),
        ("pci:0000:04:00.0", "vfio"),
        ("embedded:disk.img", "embedded"),
        ("ram:64M", "embedded"),
        ("null:64M", "embedded"),
        ("embedded-ram:64M", "embedded"),
        ("embedded-null:64M", "embedded"),
        ("/dev/null", "kernel"),
        (&format!("file:{folder}"), "kernel"),
    ] {
        for opened in [byway::open(uri), byway::open_to_read(uri)] {
            let error = opened.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let sentence = format!("without feature {feature:?} of byway");
            assert!(error.to_string().contains(&sentence), "{uri}: {error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}

#[test]
fn blocks_in_memory_need_no_feature() {
    byway::open("ramdisk:1M").unwrap().close().unwrap();
    byway::open("null-backend:1M").unwrap().close().unwrap();
}

#[test]
fn build_without_features_has_no_device_driver_or_network_in_it() {
    let tree = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "byway-features", "--edges", "normal", "--prefix", "none"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let ours = |line: &&str| line.starts_with("byway-");
    let mut crates: Vec<&str> =
        tree.lines().filter(ours).filter_map(|line| line.split_whitespace().next()).collect();
    crates.sort_unstable();
    crates.dedup();
    assert_eq!(
        crates,
        [
            "byway-backends",
            "byway-core",
            "byway-dma",
            "byway-features",
            "byway-link",
            "byway-spec",
            "byway-sys"
        ]
    );
}
