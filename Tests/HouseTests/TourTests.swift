import Testing

/// README's list "Follow a document" leads where it says.
@Suite("Follow a document")
struct TourTests {
    /// The lines from the heading to the next one.
    private static func lines() -> [Substring] {
        let text = String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/README.md"), as: UTF8.self)
        guard let start = text.range(of: "### Follow a document") else { return [] }
        return Array(text[start.upperBound...].split(separator: "\n").prefix { !$0.hasPrefix("#") })
    }

    /// `1. accepted: `accepted` in `Sources/…``
    private static func steps() -> [(number: Int, function: String, file: String)] {
        lines().prefix(12).compactMap { line in
            let parts = line.split(separator: "`", omittingEmptySubsequences: false)
            guard parts.count == 5, let number = line.split(separator: ".").first.flatMap({ Int($0) }) else { return nil }
            return (number, String(parts[1]), String(parts[3]))
        }
    }

    @Test("Eight steps, each one function of one file")
    func stepsExist() {
        let steps = Self.steps()
        #expect(steps.map(\.number) == Array(1...8))
        for step in steps {
            let code = String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/\(step.file)"), as: UTF8.self)
            #expect(code.contains("func \(step.function)("), "step \(step.number): there is no func \(step.function) in \(step.file)")
        }
    }

    @Test("Between two steps, each name is that of a file")
    func passersOnExist() {
        let rows = Self.lines().filter { $0.contains(" → ") }
        #expect(rows.count == 7)
        let files = Set(SourceFiles.swift(under: "Sources").compactMap { $0.split(separator: "/").last.map(String.init) })
        for row in rows {
            // Every other part is between backticks.
            let names = row.split(separator: "`", omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 1 }.map(\.element)
            #expect(!names.isEmpty, "\(row)")
            for name in names { #expect(files.contains("\(name).swift"), "there is no file \(name).swift: \(row)") }
        }
    }
}

extension String {
    /// Foundation's search is not linked here.
    fileprivate func range(of words: String) -> Range<Index>? { firstRange(of: words) }
}
