import Encodings
import Testing

@Suite("Texts in texts")
struct TextSearchTests {
    @Test("are found by their bytes, from the left")
    func found() {
        #expect("http://a".holds("://") && !"http:/a".holds("://") && "".holds("") && "a".holds("") && !"".holds("a"))
        #expect("aab".place(of: "ab").map { "aab"[$0] } == "ab" && "ab".place(of: "abc") == nil && "ab".place(of: "") == nil)
        #expect("a secre\u{301}t".holds("secre"), "an accent that follows hides nothing")
        #expect("x://y://z"[...].dropFirst(2).place(of: "://") != nil)
    }

    @Test("are replaced everywhere, and the replacement is not searched again")
    func replaced() {
        #expect("a-b-c".with("-", replacedBy: "--") == "a--b--c" && "aaa".with("aa", replacedBy: "b") == "ba" && "abc".with("", replacedBy: "x") == "abc")
        #expect("'it''s'".with("'", replacedBy: "''") == "''it''''s''" && "ö-ö".with("ö", replacedBy: "") == "-")
    }
}
