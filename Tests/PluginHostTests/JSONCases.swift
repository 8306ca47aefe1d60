import Testing

/// Cases in the manner of JSONTestSuite, for every JSON reader in these sources. Those that begin with `y` are accepted, with `n` refused.
struct JSONCase: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var bytes: [UInt8]

    var isAccepted: Bool { testDescription.hasPrefix("y") }

    init(_ name: String, bytes: [UInt8]) {
        testDescription = name
        self.bytes = bytes
    }

    init(_ name: String, _ text: String) { self.init(name, bytes: Array(text.utf8)) }

    /// The text as a member of an object.
    private static func value(_ name: String, _ text: String) -> JSONCase { JSONCase(name, "{\"v\":\(text)}") }
    private static func string(_ name: String, _ inside: [UInt8]) -> JSONCase {
        JSONCase(name, bytes: Array("{\"v\":\"".utf8) + inside + Array("\"}".utf8))
    }

    static let all = structure + numbers + strings + depth + space + keys

    private static let structure = [
        JSONCase("y_structure_empty_object", "{}"), value("y_structure_nested", #"{"a":[{},[],{"b":[[]]}]}"#),
        value("y_structure_words", "[true,false,null]"),
        JSONCase("n_structure_nothing", ""), JSONCase("n_structure_space_only", " "), JSONCase("n_structure_open_object", "{"),
        JSONCase("n_structure_open_member", #"{"a""#), JSONCase("n_structure_open_value", #"{"a":"#), JSONCase("n_structure_two_values", "{}{}"),
        JSONCase("n_structure_trailing_bracket", "{}}"), JSONCase("n_structure_trailing_comma", #"{"a":1,}"#),
        JSONCase("n_structure_leading_comma", #"{,"a":1}"#), JSONCase("n_structure_double_comma", #"{"a":1,,"b":2}"#),
        JSONCase("n_structure_no_colon", #"{"a" 1}"#), JSONCase("n_structure_two_colons", #"{"a"::1}"#), JSONCase("n_structure_no_comma", #"{"a":1 "b":2}"#),
        JSONCase("n_structure_unquoted_key", "{a:1}"), JSONCase("n_structure_single_quotes", "{'a':1}"), JSONCase("n_structure_number_as_key", "{1:1}"),
        JSONCase("n_structure_wrong_bracket", #"{"a":[1}]"#), JSONCase("n_structure_comment", #"{"a":1/**/}"#), JSONCase("n_structure_line_comment", "{\"a\":1}//"),
        value("n_structure_array_trailing_comma", "[1,]"), value("n_structure_array_only_comma", "[,]"), value("n_structure_array_no_comma", "[1 2]"),
        value("n_structure_array_open", "[1"), value("n_structure_word_upper", "TRUE"), value("n_structure_word_cut", "tru"),
        value("n_structure_word_longer", "nullx"), value("n_structure_undefined", "undefined"), JSONCase("n_structure_missing_value", #"{"a":}"#),
        JSONCase("n_structure_nul_byte", "{}\u{0}"), JSONCase("n_structure_byte_order_mark", "\u{FEFF}{}"),
        JSONCase("n_structure_utf16", bytes: [0xFF, 0xFE, 0x7B, 0, 0x7D, 0]),
    ]

    private static let numbers =
        ["0", "-0", "1", "-1", "9007199254740993", "-9223372036854775808", "18446744073709551616", "1.5", "0.1e1", "1e2", "1E+2", "1e-2", "0e0", "1.0E-10"]
        .map { value("y_number_\($0)", $0) }
        + [
            "-", "+1", "01", "-01", "1.", ".5", "-.5", "1e", "1e+", "1.e1", "1.5.2", "0x10", "1_000", "1,5", "NaN", "Infinity", "-Infinity", "- 1",
            "1e400", "-1e309", "1e5.5", "--1", "1+2", "１",
        ].map { value("n_number_\($0)", $0) }

    private static let strings = [
        string("y_string_empty", []), string("y_string_plain", Array("aé€😀".utf8)), string("y_string_escapes", Array(#"\"\\\/\b\f\n\r\t"#.utf8)),
        string("y_string_unicode_escape", Array(#"\u0041\u00e9\u20AC"#.utf8)), string("y_string_nul_escape", Array(#"\u0000"#.utf8)),
        string("y_string_surrogate_pair", Array(#"\ud83d\ude00\uDBFF\uDFFF"#.utf8)), string("y_string_delete", [0x7F]),
        string("y_string_noncharacter", Array("\u{FFFF}\u{10FFFF}".utf8)), string("y_string_mark_inside", Array("\u{FEFF}".utf8)),
        string("n_string_tab", [9]), string("n_string_line_feed", [10]), string("n_string_nul", [0]), string("n_string_unit_separator", [0x1F]),
        string("n_string_bad_escape", Array(#"\x41"#.utf8)), string("n_string_escape_upper", Array(#"\N"#.utf8)),
        string("n_string_escape_at_end", Array(#"\"#.utf8)), string("n_string_short_unicode", Array(#"\u12"#.utf8)),
        string("n_string_no_hexadecimal", Array(#"\u00g0"#.utf8)), string("n_string_upper_u", Array(#"\U0041"#.utf8)),
        string("n_surrogate_high_alone", Array(#"\ud800"#.utf8)), string("n_surrogate_low_alone", Array(#"\udc00"#.utf8)),
        string("n_surrogate_high_high", Array(#"\ud800\ud800"#.utf8)), string("n_surrogate_high_then_text", Array(#"\ud800x"#.utf8)),
        string("n_surrogate_high_then_escape", Array(#"\ud800\n"#.utf8)), string("n_surrogate_reversed", Array(#"\ude00\ud83d"#.utf8)),
        string("n_surrogate_second_pair", Array(#"\ud83d\ude00\ud83d"#.utf8)), string("n_utf8_surrogate", [0xED, 0xA0, 0x80]),
        string("n_utf8_overlong", [0xC0, 0x80]), string("n_utf8_overlong_slash", [0xE0, 0x80, 0xAF]), string("n_utf8_continuation", [0x80]),
        string("n_utf8_cut", [0xE2, 0x82]), string("n_utf8_too_large", [0xF4, 0x90, 0x80, 0x80]), string("n_utf8_ff", [0xFF]),
        string("n_utf8_latin_1", [0xE9]), JSONCase("n_utf8_in_key", bytes: Array("{\"".utf8) + [0xC3, 0x28] + Array("\":1}".utf8)),
        JSONCase("n_surrogate_in_key", #"{"\ud800":1}"#),
    ]

    private static func nested(_ depth: Int) -> String {
        "{\"v\":" + String(repeating: "[", count: depth - 1) + String(repeating: "]", count: depth - 1) + "}"
    }
    private static let depth = [
        JSONCase("y_depth_100", nested(100)), JSONCase("n_depth_101", nested(101)), JSONCase("n_depth_100000", nested(100_000)),
        JSONCase("n_depth_100000_open", String(repeating: "{\"a\":", count: 100_000)),
    ]

    private static let space = [
        JSONCase("y_space_everywhere", " \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } \n"), JSONCase("n_space_form_feed", "{\u{C}}"),
        JSONCase("n_space_no_break", "{\u{A0}}"), JSONCase("n_space_vertical_tab", "\u{B}{}"), JSONCase("n_space_in_number", #"{"a":1 0}"#),
        JSONCase("n_space_in_word", #"{"a":t rue}"#), JSONCase("n_space_nul", "{\u{0}}"), JSONCase("n_space_line_separator", "{\u{2028}}"),
    ]

    private static let keys = [
        JSONCase("y_keys_in_different_objects", #"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#), JSONCase("y_keys_empty", #"{"":0}"#),
        JSONCase("y_keys_differ_in_case", #"{"a":1,"A":2}"#), JSONCase("y_keys_composed_and_decomposed", "{\"\u{E9}\":1,\"e\u{301}\":2}"),
        JSONCase("y_keys_prefix", #"{"ab":1,"a":2,"abcdefgh":3,"abcdefghi":4}"#), JSONCase("y_keys_escape_of_escape", #"{"\u0061":1,"\\u0061":2}"#),
        JSONCase("y_keys_nul", #"{"a":1,"a\u0000":2}"#),
        JSONCase("n_keys_twice", #"{"a":1,"a":2}"#), JSONCase("n_keys_twice_same_value", #"{"a":1,"a":1}"#), JSONCase("n_keys_twice_apart", #"{"a":1,"b":2,"c":3,"a":4}"#),
        JSONCase("n_keys_twice_nested", #"{"x":[{"y":{"a":1,"a":2}}]}"#), JSONCase("n_keys_twice_empty", #"{"":0,"":1}"#),
        JSONCase("n_keys_twice_first_escaped", #"{"\u0061":1,"a":2}"#), JSONCase("n_keys_twice_second_escaped", #"{"a":1,"\u0061":2}"#),
        JSONCase("n_keys_twice_escape_case", #"{"\u00e9":1,"\u00E9":2}"#), JSONCase("n_keys_twice_escape_and_utf8", "{\"\\u00e9\":1,\"\u{E9}\":2}"),
        JSONCase("n_keys_twice_short_escape", #"{"\n":1,"\u000a":2}"#), JSONCase("n_keys_twice_solidus", #"{"\/":1,"/":2}"#),
        JSONCase("n_keys_twice_surrogates", "{\"\\ud83d\\ude00\":1,\"😀\":2}"), JSONCase("n_keys_twice_escaped_others", #"{"\u0062":1,"a":2,"c":3,"a":4}"#),
        JSONCase("n_keys_twice_among_many", "{" + (0..<100).map { "\"k\($0 * 7 % 100)\":1," }.joined() + "\"k3\":2}"),
        JSONCase("n_keys_twice_after_nested", #"{"b":{"z":1,"a":2},"b":1}"#),
    ]
}
