use super::*;

fn printed(text: &str) -> String {
    parse(text).unwrap().root.value.to_string()
}

fn refused(text: &str) -> (u32, u32, String) {
    let SyntaxError { place, message } = parse(text).unwrap_err();
    (place.line, place.column, message)
}

fn map_of(node: &Node) -> &Map {
    match &node.value {
        Value::Map(map) => map,
        other => panic!("{other} is not a map"),
    }
}

/// Each row was checked against upstream's converter.
#[test]
fn documents_become_the_json_that_upstream_makes_of_them() {
    for (text, json) in [
        ("", "null"),
        ("# only a comment\n", "null"),
        ("---\n", "null"),
        (
            "a: 1\nb: [yes, ~, 0777, 1e2, 1.5, x, 'yes']",
            r#"{"a":1,"b":[true,null,511,100,1.5,"x","yes"]}"#,
        ),
        (
            "a:\n- b\n- c: d\n  e:\n",
            r#"{"a":["b",{"c":"d","e":null}]}"#,
        ),
        ("? a\n: b\n? c", r#"{"a":"b","c":null}"#),
        ("a: {b, c: }", r#"{"a":{"b":null,"c":null}}"#),
        ("a: [b: c]", r#"{"a":[{"b":"c"}]}"#),
        ("- {\"a\":1}", r#"[{"a":1}]"#),
        ("a:\tb", r#"{"a":"b"}"#),
        ("a: [1,\n\t2]", r#"{"a":[1,2]}"#),
        ("a: [\nb\n]", r#"{"a":["b"]}"#),
        ("a: b\n  c", r#"{"a":"b c"}"#),
        ("a: 1 #c\nb: 1#c", r#"{"a":1,"b":"1#c"}"#),
        ("a: http://x/y:80?z#w", r#"{"a":"http://x/y:80?z#w"}"#),
        ("a: 'it''s'", r#"{"a":"it's"}"#),
        ("a: \"x\\\n   y\\u00e9\"", r#"{"a":"xyé"}"#),
        ("a: |\n  x\n  y\n", r#"{"a":"x\ny\n"}"#),
        ("a: |-\n  x\n\n", r#"{"a":"x"}"#),
        ("a: |+\n  x\n\n", r#"{"a":"x\n\n"}"#),
        ("a: >\n  x\n  y\n\n  z\n", r#"{"a":"x y\nz\n"}"#),
        ("a: |2\n   x\n", r#"{"a":" x\n"}"#),
        ("a: 1\r\nb: |\r\n  x\r\n", r#"{"a":1,"b":"x\n"}"#),
        (
            "a: !!str 5\nb: !!int '0x1F'\nc: !foo 5",
            r#"{"a":"5","b":31,"c":"5"}"#,
        ),
        ("%TAG ! tag:yaml.org,2002:\n---\na: !int '5'", r#"{"a":5}"#),
        ("%YAML 1.1\n---\na: 1", r#"{"a":1}"#),
        (
            "yes: 1\n0x10: 2\n1.50: 3\n2001-01-01: 4",
            r#"{"true":1,"16":2,"1.5":3,"2001-01-01":4}"#,
        ),
        ("!!map {a: !!str [1]}", r#"{"a":[1]}"#),
        ("a: <<", r#"{"a":"<<"}"#),
        ("\"<<\": 1", r#"{"<<":1}"#),
    ] {
        assert_eq!(printed(text), json, "{text:?}");
    }
}

#[test]
fn a_block_that_ends_with_the_file_gets_no_line_break() {
    for (text, json) in [
        ("a: |\n  x", r#"{"a":"x"}"#),
        ("a: |\n  x\n  y", r#"{"a":"x\ny"}"#),
        ("a: >+\n  x", r#"{"a":"x"}"#),
        ("a: |\n  x\n  ", r#"{"a":"x\n"}"#),
        ("a: |\n  x\n# c", r#"{"a":"x\n"}"#),
    ] {
        assert_eq!(printed(text), json, "{text:?}");
    }
}

#[test]
fn only_the_first_document_counts_and_the_rest_is_pointed_at() {
    for (text, json, line) in [
        ("a: 1\n---\nb: 2\n", r#"{"a":1}"#, Some(2)),
        ("a: 1\n...\njunk: [\n", r#"{"a":1}"#, Some(3)),
        ("---\n---\na: 1\n", "null", Some(2)),
        (" a: 1\nb: 2\n", r#"{"a":1}"#, Some(2)),
        ("a: 1\n...\n", r#"{"a":1}"#, None),
        ("a: 1\n# end\n", r#"{"a":1}"#, None),
    ] {
        let document = parse(text).unwrap();
        assert_eq!(document.root.value.to_string(), json, "{text:?}");
        assert_eq!(document.ignored.map(|place| place.line), line, "{text:?}");
    }
}

#[test]
fn keys_and_values_know_their_places() {
    let document = parse("a: 1\nü:\n  - é: [x, y]\n").unwrap();
    assert_eq!(document.root.place, Place::START);
    let entry = map_of(&document.root).entry("ü").unwrap();
    assert_eq!(entry.key_place, Place { line: 2, column: 1 });
    assert_eq!(entry.node.place, Place { line: 3, column: 3 });
    let Value::List(list) = &entry.node.value else {
        panic!("not a list");
    };
    let entry = map_of(&list[0]).entry("é").unwrap();
    assert_eq!(entry.key_place, Place { line: 3, column: 5 });
    assert_eq!(entry.node.place, Place { line: 3, column: 8 });
}

#[test]
fn aliases_repeat_their_anchors() {
    for (text, json) in [
        ("a: &x {b: 1}\nc: *x", r#"{"a":{"b":1},"c":{"b":1}}"#),
        ("a: &x 1\nb: &x 2\nc: *x", r#"{"a":1,"b":2,"c":2}"#),
        ("a: &x 1.5\n*x : b", r#"{"a":1.5,"1.5":"b"}"#),
        ("a: &x\nb: *x", r#"{"a":null,"b":null}"#),
        ("- &a [1]\n- &b [*a, *a]\n- *b", "[[1],[[1],[1]],[[1],[1]]]"),
        ("a: !!str &x 5\nb: *x", r#"{"a":"5","b":"5"}"#),
    ] {
        assert_eq!(printed(text), json, "{text:?}");
    }
    for text in [
        "a: *x",
        "a: *x\nb: &x 1",
        "a: &x [*x]",
        "a: &x {b: {<<: *x}}",
    ] {
        assert!(refused(text).2.contains("this alias"), "{text:?}");
    }
}

#[test]
fn an_aliased_value_stands_where_its_alias_stands() {
    let document = parse("a: &x {b: 1}\nc:   *x\n").unwrap();
    let copy = map_of(&document.root).get("c").unwrap();
    assert_eq!(copy.place, Place { line: 2, column: 6 });
    let inner = map_of(copy).get("b").unwrap();
    assert_eq!(
        inner.place,
        Place {
            line: 1,
            column: 11
        }
    );
}

#[test]
fn merge_keys_copy_maps_in_the_order_of_the_text() {
    for (text, json) in [
        (
            "a: &x {k: 1}\nb:\n  <<: *x\n  l: 2",
            r#"{"a":{"k":1},"b":{"k":1,"l":2}}"#,
        ),
        ("b:\n  <<: {k: 1}\n  k: 2", r#"{"b":{"k":2}}"#),
        ("b:\n  k: 2\n  <<: {k: 1}", r#"{"b":{"k":1}}"#),
        (
            "x: &x {k: 1}\nb:\n  <<: [*x, {k: 2, l: 3}]",
            r#"{"x":{"k":1},"b":{"k":1,"l":3}}"#,
        ),
        ("<<: {<<: {a: 1}, b: 2}", r#"{"a":1,"b":2}"#),
        ("!!merge <<: {a: 1}", r#"{"a":1}"#),
    ] {
        assert_eq!(printed(text), json, "{text:?}");
    }
    for text in [
        "<<: 1",
        "<<: [1]",
        "<<: [[{a: 1}]]",
        "a: &x [{b: 1}]\n<<: *x",
        "a: &x 1\n<<: *x",
    ] {
        assert!(refused(text).2.contains("'<<'"), "{text:?}");
    }
}

#[test]
fn duplicate_keys_are_reported_with_both_places_and_the_last_wins() {
    for (text, json, reports) in [
        (
            "a: 1\na: 2",
            r#"{"a":2}"#,
            &["a is set at line 1, column 1 and again at line 2, column 1"][..],
        ),
        (
            "a: {x: 1}\n\"a\": {z: 1}",
            r#"{"a":{"z":1}}"#,
            &["a is set at line 1, column 1 and again at line 2, column 1"],
        ),
        (
            "a:\n- b\n- c: {d: 1, d: 2, d: 3}",
            r#"{"a":["b",{"c":{"d":3}}]}"#,
            &[
                "a[1].c.d is set at line 3, column 7 and again at line 3, column 13",
                "a[1].c.d is set at line 3, column 13 and again at line 3, column 19",
            ],
        ),
        (
            "yes: 1\ntrue: 2",
            r#"{"true":2}"#,
            &["true is set at line 1, column 1 and again at line 2, column 1"],
        ),
        (
            "<<: {a: 1}\na: 2",
            r#"{"a":2}"#,
            &["a is set at line 1, column 6 and again at line 2, column 1"],
        ),
    ] {
        let document = parse(text).unwrap();
        assert_eq!(document.root.value.to_string(), json, "{text:?}");
        let found: Vec<_> = document
            .duplicates
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, reports, "{text:?}");
    }
    let many = parse(&"a: 1\n".repeat(1000)).unwrap();
    assert_eq!(many.duplicates.len(), MAX_DUPLICATES);
}

#[test]
fn errors_say_where_and_what_to_do() {
    for (text, line, column, words) in [
        ("a:\n\tb: 1", 2, 1, "tab"),
        ("\ta: 1", 1, 1, "tab"),
        ("a:\n  b: 1\n \tc: 2", 3, 2, "tab"),
        ("-\ta", 1, 2, "tab"),
        ("a: b: c", 1, 5, "': '"),
        ("a:\n  b: 1\n c: 2", 3, 2, "indent"),
        ("- a\nb: c", 2, 1, "indent"),
        ("a: @x", 1, 4, "quotes"),
        ("a: 'x", 1, 4, "never closed"),
        ("a: [1, 2", 1, 4, "never closed"),
        ("a: \"\\q\"", 1, 4, "escape"),
        ("? [a]\n: b", 1, 3, "a list cannot be a key"),
        ("? {a: b}\n: b", 1, 3, "a map cannot be a key"),
        ("a: 1\n~: 2", 2, 1, "null cannot be a key"),
        ("a: .inf", 1, 4, "infinity"),
        ("a: !!int x", 1, 10, "!!int"),
        ("%YAML 1.2\n---\na: 1", 2, 1, "%YAML"),
    ] {
        let (found_line, found_column, message) = refused(text);
        assert_eq!(
            (found_line, found_column),
            (line, column),
            "{text:?}: {message}"
        );
        assert!(message.contains(words), "{text:?}: {message}");
    }
}

#[test]
fn ten_thousand_levels_are_read_and_one_more_is_refused() {
    let brackets = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(printed(&brackets(MAX_DEPTH)), brackets(MAX_DEPTH));
    assert_eq!(
        printed(&"- ".repeat(MAX_DEPTH)).len(),
        2 * MAX_DEPTH + "null".len()
    );
    for text in [
        brackets(MAX_DEPTH + 1),
        "[".repeat(1_000_000),
        "- ".repeat(1_000_000),
        format!("a: {}", brackets(MAX_DEPTH)),
        format!("- &a {}\n- [*a]", brackets(MAX_DEPTH - 1)),
    ] {
        assert!(refused(&text).2.contains("10000 levels"));
    }
}

#[test]
fn a_bomb_of_aliases_is_refused_before_it_expands() {
    let repeat = |count: usize, piece: fn(usize) -> String| {
        let pieces: Vec<_> = (0..count).map(piece).collect();
        pieces.concat()
    };
    let levels = repeat(20, |level| {
        let aliases = vec![format!("*a{level}"); 10].join(", ");
        format!("- &a{} [{aliases}]\n", level + 1)
    });
    let bomb = format!("- &a0 [x, x, x, x, x, x, x, x, x, x]\n{levels}");
    assert!(refused(&bomb).2.contains("aliases repeat too much"));

    let keys = repeat(300, |key| format!("k{key}: 1, "));
    let maps = repeat(5000, |key| format!("m{key}:\n  <<: *x\n"));
    let merges = format!("x: &x {{{keys}}}\n{maps}");
    assert!(refused(&merges).2.contains("aliases repeat too much"));

    // Anchors inside of anchors cost no more than their text.
    let nested = repeat(9_999, |level| format!("[&a{level} "));
    assert!(parse(&(nested + &"]".repeat(9_999))).is_ok());
}

/// Corners where the parser reads YAML 1.2 and upstream does not; they are listed here so that a
/// change of the parser is seen. Upstream's reading stands beside.
#[test]
fn known_differences_from_upstream_are_as_they_were() {
    for (text, ours) in [
        ("a: [b:]", r#"{"a":[{"b":null}]}"#),       // ["b:"]
        ("a: {b:}", r#"{"a":{"b":null}}"#),         // {"b:":null}
        ("a: [?x]", r#"{"a":["?x"]}"#),             // [{"x":null}]
        ("[!!str, a]", r#"["","a"]"#),              // ["a"]
        ("|\nx\n", r#""x\n""#),                     // ""
        ("a: 1\n\t\nb: 2", r#"{"a":1,"b":2}"#),     // an error
        ("a: [x?y]", r#"{"a":["x?y"]}"#),           // an error
        ("a: &a-b.c 1", r#"{"a":1}"#),              // an error
        ("%FOO bar\n---\na: 1", r#"{"a":1}"#),      // an error
        ("...\na: 1", r#"{"a":1}"#),                // an error
        ("a: \"\\ud83d\\ude00\"", r#"{"a":"😀"}"#), // an error
    ] {
        assert_eq!(printed(text), ours, "{text:?}");
    }
    for text in [
        "a: [-]",            // ["-"]
        "a: 'b'#c",          // "b"
        "a: \"\\'\"",        // "'"
        "a: \"x\ny\"",       // "x y"
        "a: 'x\n\ty'",       // "x y"
        "a: \u{feff}b",      // the mark is part of the text
        "a: 1\n%YAML 1.1\n", // the second document is not read
    ] {
        refused(text);
    }
}
