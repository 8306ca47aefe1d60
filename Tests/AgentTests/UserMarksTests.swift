import Testing

@testable import Agent

/// Whom a change of the file of users concerns: they are judged first.
@Suite("Marks of users")
struct UserMarksTests {
    private func marks(_ text: String) -> UserMarks { UserMarks(UserLines(Array(text.utf8))) }

    private func changed(_ before: String, _ after: String, _ names: [String]) -> [String] {
        names.filter { marks(after).differ(from: marks(before), on: $0) }
    }

    @Test("users whose line is gone, new or changed are affected; those whose line moved, or has another line ending, are not")
    func changes() {
        let before = "# all\nada:h1\nbob:h2\ncara:h3:read_only\neve:h4\n"
        let after = "ada:h1\r\neve:h5\nnew:h6\n\nbob:h2:read_only\n"
        #expect(changed(before, after, ["ada", "bob", "cara", "eve", "new", "nobody"]) == ["bob", "cara", "eve", "new"])
        #expect(changed(before, before, ["ada", "bob", "cara", "eve"]).isEmpty)
    }

    @Test("of several lines of a name the first counts")
    func first() {
        #expect(changed("ada:h1\nada:h2\n", "ada:h1\n", ["ada"]).isEmpty)
        #expect(changed("ada:h1\nada:h2\n", "ada:h2\n", ["ada"]) == ["ada"])
    }

    @Test("if no file was read before, all of its users are affected")
    func unknown() {
        let marks = marks("ada:h1\n")
        #expect(marks.differ(from: nil, on: "ada") && !marks.differ(from: nil, on: "bob"))
    }
}
