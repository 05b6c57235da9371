//! Draws are those of the Java tool's library; what is written is read as the tool reads it.

use super::*;

const VECTORS: &str = include_str!("../../testdata/distributions.txt");

#[test]
fn samples_and_quantiles_are_those_of_the_java_library() {
    let numbers =
        |text: &str| -> Vec<i64> { text.split_whitespace().map(|n| n.parse().expect("number")).collect() };
    let mut lines = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let (head, rest) = line.split_once(" : ").expect("colon");
        let (name, seed) = head.split_once(' ').expect("seed");
        let (samples, quantiles) = rest.split_once(" | ").expect("bar");
        let distribution = Distribution::parse(name).expect(name);
        let mut sampler = distribution.sampler(0);
        sampler.set_seed(seed.parse().expect("seed"));
        let drawn: Vec<i64> = (0..6).map(|_| sampler.draw()).collect();
        assert_eq!(drawn, numbers(samples), "{head}");
        let shares = [0.1, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0];
        assert_eq!(shares.map(|share| distribution.quantile(share)).to_vec(), numbers(quantiles), "{head}");
        lines += 1;
    }
    assert_eq!(lines, 36);
}

#[test]
fn names_have_aliases_and_numbers_have_endings() {
    let same = |a: &str, b: &str| {
        let (mut a, mut b) =
            (Distribution::parse(a).unwrap().sampler(3), Distribution::parse(b).unwrap().sampler(3));
        assert_eq!(
            (0..9).map(|_| a.draw()).collect::<Vec<_>>(),
            (0..9).map(|_| b.draw()).collect::<Vec<_>>()
        );
    };
    same("GAUSS(1..1k)", "gaussian(1...1000)");
    same("norm(1..2M,3)", "NORMAL(1..2000000)");
    same("extr(1..5,2)", "EXTREME(1..5,2)");
    same("qextr(1..50,2,5)", "qextreme(1..50,2.0,5)");
    same("uniform(7..7)", "fixed(7)");
    assert_eq!(parse_count("2B"), Some(2_000_000_000));
    assert_eq!(parse_count("9223372036854775807k"), None);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let said = |text: &str| Distribution::parse(text).unwrap_err().to_string();
    assert_eq!(said("uniform"), "Illegal distribution specification: uniform");
    assert_eq!(said("uniform()"), "Illegal distribution specification: uniform()");
    assert_eq!(said("zipf(1..2)"), "Illegal distribution type: zipf");
    assert_eq!(said("weibull(1..2,3)"), "Illegal distribution type: weibull");
    assert_eq!(
        said("gaussian(1..2,3,4,5)"),
        "Invalid parameter list for gaussian distribution: [1..2, 3, 4, 5]"
    );
    for text in [
        "fixed(x)",
        "uniform(1)",
        "uniform(5..1)",
        "gaussian(1..9,0)",
        "exp(1..2)",
        "extreme(1..9,0)",
        "qextreme(1..9,2,0)",
        "seq(4..4)",
        "gaussian(1..9,nan)",
        "uniform(-9223372036854775808..9223372036854775807)",
    ] {
        assert!(said(text).starts_with("Invalid parameter list for"), "{text}");
    }
}

#[test]
fn an_inverted_distribution_is_the_mirror_of_the_plain_one() {
    let (mut plain, mut turned) = (
        Distribution::parse("exp(1..10)").unwrap().sampler(5),
        Distribution::parse("~exp(1..10)").unwrap().sampler(5),
    );
    for _ in 0..100 {
        assert_eq!(turned.draw(), 11 - plain.draw());
    }
    assert_eq!(turned.distribution().quantile(1.0), 10);
}

#[test]
fn a_sequence_begins_at_its_seed_and_wraps() {
    let mut sampler = Distribution::parse("seq(10..12)").unwrap().sampler(0);
    assert_eq!([0; 5].map(|_| sampler.draw()), [10, 11, 12, 10, 11]);
    sampler.set_seed(2);
    assert_eq!([0; 2].map(|_| sampler.draw()), [12, 10]);
    // As in Java, where a remainder has the sign of what is divided: below the range.
    sampler.set_seed(-1);
    assert_eq!([0; 2].map(|_| sampler.draw()), [9, 10]);
}

#[test]
fn fractions_are_of_the_same_draw() {
    for text in ["uniform(1..100)", "gaussian(1..100)", "exp(1..100)", "extreme(1..100,2)"] {
        let (mut whole, mut real) =
            (Distribution::parse(text).unwrap().sampler(11), Distribution::parse(text).unwrap().sampler(11));
        for _ in 0..1000 {
            let (whole, real) = (whole.draw(), real.next_double());
            assert!((1.0..=100.0).contains(&real), "{text}: {real}");
            assert_eq!(whole, real as i64, "{text}");
        }
    }
}

#[test]
fn groups_of_a_quantized_distribution_come_alike() {
    let mut sampler = Distribution::parse("qextreme(1..1000,2,4)").unwrap().sampler(1);
    let bounds = [0.25, 0.5, 0.75].map(|share| sampler.distribution().quantile(share));
    let mut counts = [0; 4];
    for _ in 0..40_000 {
        let value = sampler.draw();
        assert!((1..=1000).contains(&value));
        counts[bounds.partition_point(|bound| *bound <= value)] += 1;
    }
    assert!(counts.iter().all(|count| (9_300..10_700).contains(count)), "{counts:?}");
}
