import Selectors
import Testing

@Suite("A regular expression of a selector")
struct PatternTests {
    @Test("finds what it describes", arguments: [
        ("", "x", true), ("abc", "xabcx", true), ("abc", "ab", false), ("^abc$", "abc", true), ("^abc$", "abc\n", true), ("\\Aabc\\z", "abc\n", false),
        ("^abc", "xabc", false), ("a.c", "abc", true), ("a.c", "a\nc", false), ("(?s)a.c", "a\nc", true), ("^a.c$", "aäc", true), ("^a.{1}c$", "a😀c", true),
        ("[a-c]+x", "zzabcx", true), ("[^a-c]", "abc", false), ("[]a]", "]", true), ("[a-]", "-", true), ("[\\d-]", "-", true), ("[\\w.]+@x", "a.b@x", true),
        ("\\d{3}-\\d{2,}", "tel 123-45", true), ("\\d{3}-\\d{2,}$", "123-4", false), ("^a{2,3}$", "aaaa", false), ("^(ab|cd)*$", "abcdab", true),
        ("^(ab|cd)*$", "abc", false), ("colou?r", "color", true), ("a|b|c", "xxc", true), ("(?i)HeLLo", "hello", true), ("(?i)[a-f]+$", "FACE", true),
        ("\\bcat\\b", "a cat!", true), ("\\bcat\\b", "concat", false), ("\\Bcat", "concat", true), ("(?m)^b$", "a\nb\nc", true), ("^b$", "a\nb", false),
        ("\\.", "a.b", true), ("\\.", "ab", false), ("\\x41\\x{1F600}", "A😀", true), ("a{,2}", "a{,2}", true), ("x{", "x{", true), ("(?:a(b)?)+$", "aab", true),
        ("\\s\\S\\W", "\t!-", true), ("(a*)*b", "aaab", true), ("a*?b", "aab", true), ("^(?:x|)$", "", true), ("(^a)b", "ab", true), ("\\_\\/", "_/", true),
    ])
    func finds(pattern: String, text: String, isFound: Bool) throws {
        #expect(try Pattern(pattern).matches(text) == isFound, "\(pattern) in \(text)")
    }

    @Test("that needs more is refused, and the error names what it needs", arguments: [
        ("(a)\\1", "escape \\1"), ("(?=a)", "lookahead"), ("(?!a)", "lookahead"), ("(?<=a)", "lookbehind"), ("(?<n>a)", "named group"), ("(?P<n>a)", "named group"),
        ("(?>a)", "atomic"), ("a++", "possessive"), ("[[:alpha:]]", "named class"), ("\\p{L}", "escape \\p"), ("a(?i)b", "flag"), ("(?x)a", "flag"),
        ("(a", "\"(\""), ("a)", "\")\""), ("[a", "\"[\""), ("*a", "repeated"), ("a**", "repeated"), ("{2}", "repeated"), ("^*", "repeated"), ("a{3,2}", "order"),
        ("[z-a]", "order"), ("a\\", "nothing behind"), ("a{9999}", "regex_states"), ("(a{100}){100}", "regex_states"), ("(){400}", ""), ("((){400}){400}", "regex_states"),
        ("(?C1)", "flag"), ("(*VERB)", "verb"),
    ])
    func refusals(pattern: String, word: String) throws {
        if word.isEmpty { return _ = try Pattern(pattern) }
        let error = try #require(throws: SelectorError.self) { try Pattern(pattern) }
        #expect(error.reason.contains(word) && error.reason.contains("$regex"), "\(pattern): \(error)")
    }

    @Test("takes time linear in the text, even where backtracking would take for ever")
    func linear() throws {
        let text = String(repeating: "a", count: 10_000) + "!"
        #expect(try !Pattern("^(a+)+$").matches(text))
        #expect(try !Pattern("(a|aa)*(a|aa)*(a|aa)*b").matches(text))
        #expect(try !Pattern("a").matches(String(repeating: "a", count: SelectorLimits.regexTextBytes + 1)))
        let deep = String(repeating: "(", count: 60) + "a" + String(repeating: ")", count: 60)
        #expect(throws: SelectorError.self) { try Pattern(deep) }
    }
}
