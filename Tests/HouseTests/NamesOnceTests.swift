import Testing

/// A name that operators read has one meaning.
@Suite("One name, one meaning")
struct NamesOnceTests {
    /// Status fields that show the limit itself.
    private static let tellTheLimit: Set<String> = ["max_connections"]

    @Test("no limit has the same name as a status field with another meaning")
    func limits() {
        var limits: Set<String> = []
        for path in SourceFiles.swift(under: "Sources") where path.hasSuffix("Limits.swift") {
            for match in Self.text(path).matches(of: /\/\/\/ `([a-z]+(?:_[a-z]+)+)`/) { limits.insert(String(match.1)) }
        }
        var fields: Set<String> = []
        for match in Self.text("Sources/Agent/Admin/StatusReport.swift").matches(of: /"([a-z]+(?:_[a-z]+)+)":/) { fields.insert(String(match.1)) }
        // If these are small, the search for them is broken.
        #expect(limits.count > 100 && fields.count > 40, "\(limits.count) \(fields.count)")
        let both = limits.intersection(fields).subtracting(Self.tellTheLimit)
        #expect(both.isEmpty, "these name a limit and something else: \(both.sorted())")
    }

    private static func text(_ path: String) -> String { String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/\(path)"), as: UTF8.self) }
}
