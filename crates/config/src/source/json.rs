//! The JSON path: strict JSON with places, lenient only where Go's decoder is.

use super::builder::{Builder, Replaced};
use super::document::{Document, Duplicate, MAX_DEPTH, MAX_DUPLICATES, SyntaxError};
use super::number::Number;
use super::text::{count_from_1, push_lossy};
use super::tree::{List, Node, Place, Value};
use super::yaml::{MAX_VALUES, too_many_values};

/// Whether upstream reads these bytes as JSON: a brace is the first thing after white space.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    text.trim_start().starts_with('{')
}

/// Reads a JSON text.
pub(super) fn parse(bytes: &[u8]) -> Result<Document, SyntaxError> {
    let mut parser = Parser {
        reader: Reader::new(bytes),
        builder: Builder::default(),
        duplicates: Vec::new(),
        expected: Expected::Value,
        total: 0,
    };
    while !parser.at_end()? {
        parser.step()?;
    }
    Ok(Document {
        root: parser.builder.finish(),
        duplicates: parser.duplicates,
        ignored: None,
    })
}

/// What may come next.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    Value,
    /// A value, or the end of the list that was just opened.
    FirstValue,
    Key,
    /// A key, or the end of the map that was just opened.
    FirstKey,
    /// A comma, or the end of the container.
    Comma,
    End,
}

struct Parser<'b> {
    reader: Reader<'b>,
    builder: Builder,
    duplicates: Vec<Duplicate>,
    expected: Expected,
    /// How many keys and values were read.
    total: u32,
}

impl Parser<'_> {
    /// Whether the text is over, at the one point where it may be.
    fn at_end(&mut self) -> Result<bool, SyntaxError> {
        self.reader.skip_white_space();
        match (self.expected, self.reader.peek()) {
            (Expected::End, None) => Ok(true),
            (Expected::End, Some(_)) => {
                self.refuse("there is more text after the end of the JSON value; remove it")
            }
            (_, None) => self.refuse("the file ends here, before all braces are closed"),
            (_, Some(_)) => Ok(false),
        }
    }

    fn step(&mut self) -> Result<(), SyntaxError> {
        let in_map = self.builder.in_map();
        match (self.expected, self.reader.peek()) {
            (Expected::FirstValue, Some(b']')) | (Expected::FirstKey, Some(b'}')) => self.close(),
            (Expected::Comma, Some(b']')) if !in_map => self.close(),
            (Expected::Comma, Some(b'}')) if in_map => self.close(),
            (Expected::Comma, Some(b',')) => {
                self.reader.advance();
                self.expected = if in_map {
                    Expected::Key
                } else {
                    Expected::Value
                };
            }
            (Expected::Comma, _) if in_map => {
                return self.refuse("a ',' or the closing '}' is missing before this");
            }
            (Expected::Comma, _) => {
                return self.refuse("a ',' or the closing ']' is missing before this");
            }
            (Expected::Key, Some(b'}')) | (Expected::Value, Some(b']')) => {
                return self.refuse("JSON has no comma after the last value; remove it");
            }
            (Expected::Key | Expected::FirstKey, _) => return self.key(),
            (Expected::Value | Expected::FirstValue, _) => return self.value(),
            (Expected::End, _) => {}
        }
        Ok(())
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        let place = self.reader.place();
        if self.reader.peek() != Some(b'"') {
            return self.refuse(
                "a key must be a string in double quotes: a file that starts with '{' is read as \
                 JSON, not as YAML",
            );
        }
        self.count(place)?;
        let key = self.reader.string()?;
        self.reader.skip_white_space();
        if self.reader.peek() != Some(b':') {
            return self.refuse("a ':' is missing after the key");
        }
        self.reader.advance();
        self.builder.key(key, place);
        self.expected = Expected::Value;
        Ok(())
    }

    fn value(&mut self) -> Result<(), SyntaxError> {
        let place = self.reader.place();
        self.count(place)?;
        let value = match self.reader.peek() {
            Some(b'{') => {
                // Go decodes a key's second object into what the first one has left there.
                let earlier = self.builder.take_earlier_map();
                let map = Value::Map(earlier.unwrap_or_default());
                return self.open(map, place, Expected::FirstKey);
            }
            Some(b'[') => {
                return self.open(Value::List(List::new()), place, Expected::FirstValue);
            }
            Some(b'"') => Value::String(self.reader.string()?),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.reader.number()?),
            _ => match self.reader.take_while(|byte| byte.is_ascii_alphanumeric()) {
                "null" => Value::Null,
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => {
                    return Err(SyntaxError::new(
                        place,
                        "this is not a JSON value; put text in double quotes",
                    ));
                }
            },
        };
        let replaced = self.builder.attach(Node::new(value, place));
        self.finish_value(replaced);
        Ok(())
    }

    fn count(&mut self, place: Place) -> Result<(), SyntaxError> {
        if self.total >= MAX_VALUES {
            return Err(too_many_values(place));
        }
        self.total += 1;
        Ok(())
    }

    fn open(&mut self, container: Value, place: Place, next: Expected) -> Result<(), SyntaxError> {
        if self.builder.depth() >= MAX_DEPTH {
            return Err(SyntaxError::too_deep(place));
        }
        self.reader.advance();
        self.builder.open(container, place);
        self.expected = next;
        Ok(())
    }

    fn close(&mut self) {
        self.reader.advance();
        let replaced = self.builder.shut();
        self.finish_value(replaced);
    }

    fn finish_value(&mut self, replaced: Option<Replaced>) {
        // A key from before its container was opened comes from an earlier object, not from this.
        if let Some(replaced) = replaced
            && replaced.first > self.builder.place()
            && self.duplicates.len() < MAX_DUPLICATES
        {
            self.duplicates.push(self.builder.duplicate(replaced));
        }
        self.expected = if self.builder.depth() == 0 {
            Expected::End
        } else {
            Expected::Comma
        };
    }

    fn refuse<T>(&mut self, message: &str) -> Result<T, SyntaxError> {
        Err(SyntaxError::new(self.reader.place(), message))
    }
}

/// The bytes, how far they are read, and how far lines and columns are counted.
struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    counted: usize,
    line: usize,
    column: usize,
}

impl<'b> Reader<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            counted: 0,
            line: 0,
            column: 0,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn advance(&mut self) {
        self.at += 1;
    }

    /// The place of the next byte. Each byte is counted once, so that long lines cost nothing more.
    fn place(&mut self) -> Place {
        for byte in self.bytes.get(self.counted..self.at).unwrap_or_default() {
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.column = 0;
                }
                // The later bytes of a character do not move the column.
                0x80..0xc0 => {}
                _ => self.column += 1,
            }
        }
        self.counted = self.at;
        Place {
            line: count_from_1(self.line),
            column: count_from_1(self.column),
        }
    }

    fn skip_white_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.advance();
        }
    }

    /// Takes ASCII characters as long as they fit.
    fn take_while(&mut self, fits: impl Fn(u8) -> bool) -> &'b str {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|byte| byte.is_ascii() && fits(byte))
        {
            self.advance();
        }
        let taken = self.bytes.get(start..self.at).unwrap_or_default();
        std::str::from_utf8(taken).unwrap_or_default()
    }

    fn number(&mut self) -> Result<Number, SyntaxError> {
        let place = self.place();
        let literal =
            self.take_while(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        if !is_number(literal) {
            return Err(SyntaxError::new(
                place,
                "this is not a number as JSON writes it; put text in double quotes",
            ));
        }
        let whole = !literal.contains(['.', 'e', 'E']);
        if let Some(number) = Number::whole(literal).filter(|_| whole) {
            return Ok(number);
        }
        match literal.parse() {
            Ok(float) if f64::is_finite(float) => Ok(Number::Float(float)),
            _ => Err(SyntaxError::new(place, "this number is too large")),
        }
    }

    /// Reads a string, from its opening quote to its closing one.
    fn string(&mut self) -> Result<String, SyntaxError> {
        let opening = self.place();
        self.advance();
        let mut text = String::new();
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let run = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0..b' '))
                .unwrap_or(rest.len());
            push_lossy(&mut text, rest.get(..run).unwrap_or_default());
            self.at += run;
            match self.peek() {
                Some(b'"') => {
                    self.advance();
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => {
                    return Err(SyntaxError::new(
                        self.place(),
                        "a string cannot contain a line break or a control character; close the \
                         quote, or write an escape such as \\n",
                    ));
                }
                None => return Err(SyntaxError::new(opening, "this quote is never closed")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        let place = self.place();
        self.advance();
        let character = match self.peek() {
            Some(quoted @ (b'"' | b'\\' | b'/')) => char::from(quoted),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let unit = self.unit(1).ok_or_else(|| {
                    SyntaxError::new(place, "four hexadecimal digits must follow \\u")
                })?;
                self.at += 5;
                return Ok(self.character(unit));
            }
            _ => {
                return Err(SyntaxError::new(
                    place,
                    "this escape is unknown; write '\\\\' for a backslash",
                ));
            }
        };
        self.advance();
        Ok(character)
    }

    /// The character of a UTF-16 unit, with the other half of a pair if that follows. Go replaces
    /// halves that stand alone.
    fn character(&mut self, unit: u16) -> char {
        if let Some(character) = char::from_u32(unit.into()) {
            return character;
        }
        let follows = matches!(self.bytes.get(self.at..), Some([b'\\', b'u', ..]));
        let pair = self.unit(2).filter(|_| follows).map(|low| [unit, low]);
        let decoded = pair.and_then(|pair| char::decode_utf16(pair).next()?.ok());
        if decoded.is_some() {
            self.at += 6;
        }
        decoded.unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Four hexadecimal digits, so far ahead.
    fn unit(&self, ahead: usize) -> Option<u16> {
        let digits = self.bytes.get(self.at + ahead..self.at + ahead + 4)?;
        let hexadecimal = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| hexadecimal)?;
        u16::from_str_radix(digits, 16).ok()
    }
}

fn is_number(literal: &str) -> bool {
    let unsigned = literal.strip_prefix('-').unwrap_or(literal);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent
            .is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> String {
        parse(text.as_bytes()).unwrap().root.value.to_string()
    }

    fn refused(text: &str) -> (u32, u32, String) {
        let SyntaxError { place, message } = parse(text.as_bytes()).unwrap_err();
        (place.line, place.column, message)
    }

    #[test]
    fn a_brace_after_white_space_means_json() {
        for text in ["{", " \t\r\n{", "\u{a0}{", "\u{3000}{}", "\u{b}{"] {
            assert!(is_json(text.as_bytes()), "{text:?}");
        }
        for bytes in [
            b"".as_slice(),
            b"a: {}",
            b"[{}]",
            b"\xef\xbb\xbf{}",
            b"\xff{",
        ] {
            assert!(!is_json(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let text = r#"{"n":null,"t":true,"f":false,"s":"x","l":[1,[],{}],"m":{"k":{}}}"#;
        assert_eq!(printed(text), text);
        assert_eq!(printed(" {\n\t\"a\" : [ 1 , 2 ] }\r\n"), r#"{"a":[1,2]}"#);
    }

    #[test]
    fn a_file_has_no_more_values_than_a_yaml_file_may_have() {
        // The list itself counts too.
        let zeros = |count: u32| format!("[{}0]", "0,".repeat(count as usize - 1));
        assert!(parse(zeros(MAX_VALUES - 1).as_bytes()).is_ok());
        let (_, _, message) = refused(&zeros(MAX_VALUES));
        assert!(message.contains("more than 1000000 values"), "{message}");
    }

    #[test]
    fn a_number_keeps_the_kind_that_its_text_gives_it() {
        for (text, number) in [
            ("0", Number::Int(0)),
            ("-0", Number::Int(0)),
            ("-9223372036854775808", Number::Int(i64::MIN)),
            ("18446744073709551615", Number::Uint(u64::MAX)),
            (
                "18446744073709551616",
                Number::Float(18_446_744_073_709_551_616.0),
            ),
            ("1.0", Number::Float(1.0)),
            ("1e2", Number::Float(100.0)),
            ("-1.5E-3", Number::Float(-0.0015)),
        ] {
            let document = parse(format!("{{\"a\":{text}}}").as_bytes()).unwrap();
            let Value::Map(map) = &document.root.value else {
                panic!("not a map");
            };
            assert_eq!(map.get("a").unwrap().value, Value::Number(number), "{text}");
        }
    }

    #[test]
    fn escapes_are_decoded_and_broken_characters_replaced() {
        assert_eq!(
            printed(r#"{"a":"\"\\\/\b\f\n\r\t\u0041"}"#),
            r#"{"a":"\"\\/\b\f\n\r\tA"}"#
        );
        assert_eq!(printed(r#"{"a":"\ud83d\ude00"}"#), r#"{"a":"😀"}"#);
        assert_eq!(
            printed(r#"{"a":"\ud83dx\ude00\ud83d\u0041"}"#),
            "{\"a\":\"\u{fffd}x\u{fffd}\u{fffd}A\"}"
        );
        let document = parse(b"{\"\xff\":\"\xc3\"}").unwrap();
        assert_eq!(
            document.root.value.to_string(),
            "{\"\u{fffd}\":\"\u{fffd}\"}"
        );
    }

    #[test]
    fn values_and_keys_know_their_places() {
        let document = parse("{\n  \"é\": [\n    \"é\", 2\n  ]\n}".as_bytes()).unwrap();
        let Value::Map(map) = &document.root.value else {
            panic!("not a map");
        };
        let entry = map.entry("é").unwrap();
        assert_eq!(entry.key_place, Place { line: 2, column: 3 });
        assert_eq!(entry.node.place, Place { line: 2, column: 8 });
        let Value::List(list) = &entry.node.value else {
            panic!("not a list");
        };
        assert_eq!(
            list[1].place,
            Place {
                line: 3,
                column: 10
            }
        );
    }

    #[test]
    fn a_map_that_is_written_twice_is_merged_and_reported() {
        let document =
            parse(br#"{"a":{"b":1,"c":{"x":1}},"d":1,"a":{"b":2,"c":{"y":2}},"d":[]}"#).unwrap();
        assert_eq!(
            document.root.value.to_string(),
            r#"{"a":{"b":2,"c":{"x":1,"y":2}},"d":[]}"#
        );
        let paths: Vec<_> = document
            .duplicates
            .iter()
            .map(|duplicate| &duplicate.path)
            .collect();
        assert_eq!(paths, ["a", "d"]);
        let document = parse(br#"{"a":[0,{"b":1,"b":2}]}"#).unwrap();
        let duplicate = &document.duplicates[0];
        assert_eq!(
            duplicate.to_string(),
            "a[1].b is set at line 1, column 10 and again at line 1, column 16"
        );
    }

    #[test]
    fn what_is_not_json_is_refused_at_its_place() {
        for (text, column, words) in [
            ("{", 2, "ends here"),
            ("{a: b}", 2, "double quotes"),
            ("{\"a\"}", 5, "':'"),
            ("{\"a\":}", 6, "not a JSON value"),
            ("{\"a\":1,}", 8, "comma after the last"),
            ("{\"a\":[1,]}", 9, "comma after the last"),
            ("{\"a\":[1 2]}", 9, "','"),
            ("{\"a\":1 \"b\":2}", 8, "','"),
            ("{\"a\":[}", 7, "not a JSON value"),
            ("{\"a\":[1}", 8, "']'"),
            ("{,}", 2, "double quotes"),
            ("{\"a\":True}", 6, "not a JSON value"),
            ("{\"a\":01}", 6, "not a number"),
            ("{\"a\":1.}", 6, "not a number"),
            ("{\"a\":-}", 6, "not a number"),
            ("{\"a\":1e999}", 6, "too large"),
            ("{\"a\":\"x", 6, "never closed"),
            ("{\"a\":\"x\ty\"}", 8, "control character"),
            ("{\"a\":\"\\x\"}", 7, "escape"),
            ("{\"a\":\"\\u12\"}", 7, "four hexadecimal"),
            ("{\"a\\", 4, "escape"),
            ("{} {}", 4, "more text"),
            ("\u{a0}{}", 1, "not a JSON value"),
        ] {
            let (line, found, message) = refused(text);
            assert_eq!((line, found), (1, column), "{text}: {message}");
            assert!(message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    fn ten_thousand_levels_are_read_and_one_more_is_refused() {
        let nested = |levels| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        assert_eq!(printed(&nested(MAX_DEPTH)), nested(MAX_DEPTH));
        assert!(refused(&nested(MAX_DEPTH + 1)).2.contains("10000 levels"));
        assert!(
            refused(&"{\"a\":[".repeat(100_000))
                .2
                .contains("10000 levels")
        );
    }
}
