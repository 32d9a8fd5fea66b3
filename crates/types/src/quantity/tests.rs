//! What upstream makes of a text, and what we make of it.

use proptest::prelude::*;

use super::*;

const MAX: i64 = i64::MAX;
const MIN: i64 = i64::MIN;

/// Text, canonical text, value, milli value and `AsInt64` as upstream gives
/// them; where upstream's 64 bits overflow, the limit stands in its place.
#[rustfmt::skip]
const UPSTREAM: &[(&str, &str, i64, i64, Option<i64>)] = &[
    ("0", "0", 0, 0, Some(0)),
    ("00", "0", 0, 0, Some(0)),
    ("+0", "0", 0, 0, Some(0)),
    ("-0", "0", 0, 0, Some(0)),
    ("0Ki", "0", 0, 0, Some(0)),
    ("0.0", "0", 0, 0, None),
    ("1", "1", 1, 1_000, Some(1)),
    ("+1", "+1", 1, 1_000, Some(1)),
    ("01", "01", 1, 1_000, Some(1)),
    ("1.0", "1", 1, 1_000, None),
    ("1.5", "1500m", 2, 1_500, None),
    ("1.50", "1500m", 2, 1_500, None),
    ("1.125", "1.125", 2, 1_125, None),
    ("1.1250", "1125m", 2, 1_125, None),
    (".5", "500m", 1, 500, None),
    ("5.", "5.", 5, 5_000, Some(5)),
    (".", "0", 0, 0, Some(0)),
    ("-", "0", 0, 0, Some(0)),
    ("Ki", "0", 0, 0, Some(0)),
    ("1k", "1k", 1_000, 1_000_000, Some(1_000)),
    ("1000", "1k", 1_000, 1_000_000, Some(1_000)),
    ("1000k", "1M", 1_000_000, 1_000_000_000, Some(1_000_000)),
    ("1024", "1024", 1_024, 1_024_000, Some(1_024)),
    ("1Ki", "1Ki", 1_024, 1_024_000, Some(1_024)),
    ("1023Ki", "1023Ki", 1_047_552, 1_047_552_000, Some(1_047_552)),
    ("1024Ki", "1Mi", 1_048_576, 1_048_576_000, Some(1_048_576)),
    ("1.5Ki", "1536", 1_536, 1_536_000, None),
    ("0.5Ki", "512", 512, 512_000, None),
    ("0.0001Ki", "102400u", 1, 103, None),
    ("1000Ki", "1000Ki", 1_024_000, 1_024_000_000, Some(1_024_000)),
    ("1.5Gi", "1536Mi", 1_610_612_736, 1_610_612_736_000, None),
    ("10Mi", "10Mi", 10_485_760, 10_485_760_000, Some(10_485_760)),
    ("99Ti", "99Ti", 108_851_651_149_824, 108_851_651_149_824_000, Some(108_851_651_149_824)),
    ("100Ti", "100Ti", 109_951_162_777_600, 109_951_162_777_600_000, None),
    ("1Pi", "1Pi", 1_125_899_906_842_624, 1_125_899_906_842_624_000, None),
    ("7Ei", "7Ei", 8_070_450_532_247_928_832, MAX, None),
    ("8Ei", "9223372036854775807", MAX, MAX, None),
    ("-8Ei", "-9223372036854775807", -MAX, MIN, None),
    ("9999999999999999999Ki", "9223372036854775807", MAX, MAX, None),
    ("100m", "100m", 1, 100, None),
    ("1000m", "1", 1, 1_000, None),
    ("1500m", "1500m", 2, 1_500, None),
    ("0.1m", "100u", 1, 1, None),
    ("1u", "1u", 1, 1, None),
    ("1n", "1n", 1, 1, None),
    ("0.1n", "1n", 1, 1, None),
    ("0.0000000001", "1n", 1, 1, None),
    ("-0.5", "-500m", -1, -500, None),
    ("-1500m", "-1500m", -2, -1_500, None),
    ("1e3", "1e3", 1_000, 1_000_000, Some(1_000)),
    ("1E3", "1E3", 1_000, 1_000_000, Some(1_000)),
    ("1E", "1E", 1_000_000_000_000_000_000, MAX, Some(1_000_000_000_000_000_000)),
    ("1e-3", "1e-3", 1, 1, None),
    ("1.5e3", "1500", 1_500, 1_500_000, Some(1_500)),
    ("12e6", "12e6", 12_000_000, 12_000_000_000, Some(12_000_000)),
    ("1e0", "1e0", 1, 1_000, Some(1)),
    ("1e-10", "1e-9", 1, 1, None),
    ("123456789012345678", "123456789012345678", 123_456_789_012_345_678, MAX, Some(123_456_789_012_345_678)),
    ("1234567890123456789", "1234567890123456789", 1_234_567_890_123_456_789, MAX, None),
    ("9223372036854775807", "9223372036854775807", MAX, MAX, None),
    ("9223372036854775808", "9223372036854775808", MAX, MAX, None),
    ("999999999999999999999", "999999999999999999999", MAX, MAX, None),
    ("100e-1", "10", 10, 10_000, None),
    ("1e+3", "1e+3", 1_000, 1_000_000, Some(1_000)),
];

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[test]
fn a_quantity_reads_and_prints_as_upstream_does() {
    for (text, printed, value, milli, exact) in UPSTREAM {
        let quantity = quantity(text);
        assert_eq!(quantity.to_string(), *printed, "{text:?}");
        assert_eq!(quantity.value(), *value, "value of {text:?}");
        assert_eq!(quantity.milli_value(), *milli, "milli value of {text:?}");
        assert_eq!(quantity.as_i64_exact(), *exact, "exact value of {text:?}");
    }
}

#[test]
fn beyond_the_largest_suffix_zeros_are_kept_that_upstream_drops() {
    for (text, printed) in [
        ("1000E", "1000E"),
        ("2500000000E", "2500000000E"),
        ("1e30", "1e30"),
    ] {
        assert_eq!(quantity(text).to_string(), printed);
    }
    assert_eq!(quantity("1e30").value(), MAX);
    assert_eq!(quantity("-1e30").value(), MIN);
}

#[test]
fn what_is_not_a_quantity_is_refused_with_a_reason() {
    for (text, reason) in [
        ("", "write a number"),
        (" 1", "write a number"),
        ("1 ", "write a number"),
        ("1.2.3", "write a number"),
        ("0x1", "write a number"),
        ("1e5x", "write a number"),
        ("--1", "unknown suffix \"-1\""),
        ("1\u{b5}", "write a number"),
        ("1K", "unknown suffix \"K\"; use n, u, m"),
        ("1mi", "unknown suffix \"mi\""),
        ("1e", "unknown suffix \"e\""),
        ("1e1e1", "write a number"),
        ("1+5", "unknown suffix \"+5\""),
        ("1e99999999999", "unknown suffix"),
        ("Ei", "no number before the suffix \"Ei\""),
        ("+.e-10", "no number before the suffix"),
        (
            "123456789012345678901234567890123456789",
            "at most 38 significant digits",
        ),
    ] {
        let error = text.parse::<Quantity>().unwrap_err().to_string();
        assert!(error.contains(reason), "{text:?}: {error}");
    }
}

#[test]
fn quantities_are_ordered_by_amount_whatever_their_notation() {
    let ascending = [
        "-1e2000000000",
        "-1Ki",
        "-1k",
        "-1",
        "-1n",
        "0",
        "1n",
        "999u",
        "1m",
        "0.9",
        "1",
        "1k",
        "1Ki",
        "1M",
        "1Mi",
        "8Ei",
        "1e30",
        "99999999999999999999999999999999999999e10",
        "1e48",
        "1e2000000000",
    ];
    for (index, left) in ascending.iter().enumerate() {
        for (other, right) in ascending.iter().enumerate() {
            assert_eq!(
                quantity(left).cmp(&quantity(right)),
                index.cmp(&other),
                "{left} {right}"
            );
        }
    }
    assert_eq!(quantity("1000m"), quantity("1"));
    assert_eq!(quantity("1Ki"), quantity("1.024e3"));
    assert_eq!(quantity("0"), quantity("-0Ki"));
}

#[test]
fn sums_are_exact_and_keep_the_notation_of_the_first_that_is_not_zero() {
    for (left, right, sum) in [
        ("1Gi", "1Mi", "1025Mi"),
        ("1Gi", "1", "1073741825"),
        ("1023Ki", "1Ki", "1Mi"),
        ("0", "1Ki", "1Ki"),
        ("1Ki", "0", "1Ki"),
        ("1.125", "0", "1125m"),
        ("1.5", "1.5", "3"),
        ("1e3", "1m", "1000001e-3"),
        ("8Ei", "8Ei", "18446744073709551614"),
        ("100Ti", "1e30", "931322574615478618025Gi"),
        ("1", "-1", "0"),
    ] {
        let total = quantity(left).checked_add(&quantity(right)).unwrap();
        assert_eq!(total.to_string(), sum, "{left} + {right}");
    }
    assert_eq!(
        quantity("1Gi")
            .checked_sub(&quantity("1Mi"))
            .unwrap()
            .to_string(),
        "1023Mi"
    );
    assert_eq!(quantity("250m").checked_mul(8).unwrap().to_string(), "2");
    assert_eq!(quantity("1e40").checked_add(&quantity("1n")), None);
}

#[test]
fn a_sum_of_plain_numbers_is_still_a_plain_number() {
    let sum = quantity("10Mi").checked_add(&quantity("1k")).unwrap();
    assert_eq!(sum.as_i64_exact(), Some(10_486_760));
    assert!(
        !quantity("1.5Gi")
            .checked_add(&quantity("1"))
            .unwrap()
            .fits_i64()
    );
}

#[test]
fn numbers_become_quantities_in_a_chosen_notation() {
    assert_eq!(Quantity::new(1 << 30, Format::BinarySi).to_string(), "1Gi");
    assert_eq!(
        Quantity::new(1_000_000, Format::DecimalSi).to_string(),
        "1M"
    );
    assert_eq!(
        Quantity::from_milli(2500, Format::DecimalSi).to_string(),
        "2500m"
    );
    assert_eq!(
        Quantity::from_milli(2000, Format::DecimalSi).to_string(),
        "2"
    );
    assert_eq!(Quantity::new(i64::MIN, Format::DecimalSi).value(), MIN);
}

#[test]
fn json_has_strings_and_may_have_numbers_or_null() {
    let read = |json: &str| {
        serde_json::from_str::<Quantity>(json)
            .map(|q| q.to_string())
            .ok()
    };
    for (json, printed) in [
        ("\"1.5Gi\"", Some("1536Mi")),
        ("\" 2 \"", Some("2")),
        ("5", Some("5")),
        ("-7", Some("-7")),
        ("0.5", Some("500m")),
        ("null", Some("0")),
        ("\"\"", None),
        ("true", None),
    ] {
        assert_eq!(read(json).as_deref(), printed, "{json}");
    }
    assert_eq!(serde_json::to_string(&quantity("0.5")).unwrap(), "\"500m\"");
}

proptest! {
    #[test]
    fn any_text_is_a_quantity_or_an_error(text in "[-+]?[0-9.]{0,45}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,11}|.{0,12}") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let _ = (quantity.to_string(), quantity.value(), quantity.milli_value());
            let _ = (quantity.as_i64_exact(), quantity.checked_mul(MIN), quantity.cmp(&Quantity::default()));
        }
    }

    #[test]
    fn a_printed_quantity_reads_back_as_the_same_amount(
        text in "-?[0-9]{1,18}(\\.[0-9]{1,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,2})?"
    ) {
        let quantity = text.parse::<Quantity>().unwrap();
        let printed = quantity.to_string();
        let again = printed.parse::<Quantity>().unwrap();
        prop_assert_eq!(&again, &quantity);
        prop_assert_eq!(again.to_string(), printed);
    }

    #[test]
    fn a_difference_undoes_a_sum(left in any::<i64>(), right in any::<i64>()) {
        let (a, b) = (Quantity::from_milli(left, Format::DecimalSi), Quantity::new(right, Format::BinarySi));
        let sum = a.checked_add(&b).unwrap();
        prop_assert_eq!(sum.checked_sub(&b).unwrap(), a);
    }
}
