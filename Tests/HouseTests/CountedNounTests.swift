import Testing

/// "1 documents" is nobody's word: counts in sentences are `Plural.count`'s.
@Suite("Counted nouns")
struct CountedNounTests {
    /// What is only said of many: a bound that was passed, and constants.
    private static let ofMany = ["more than", "max_", "Self.maximum", "resends is", "of: counts.total", "count == 1 ?"]

    @Test("no count is put before a plural without the helper")
    func plurals() throws {
        let counted = try Regex(#"\\\([^()"]*(\([^()"]*\)[^()"]*)*\) (documents|blobs|times|changes|revisions|conflicts|plugins|parts|failures|differences|tries|items|lines|files)\b"#)
        var found: [String] = []
        var helped = 0
        for path in SourceFiles.swift(under: "Sources") where !path.contains("nightjar-bench") {
            let text = String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/\(path)"), as: UTF8.self)
            for line in text.split(separator: "\n") {
                if line.contains("Plural.count(") { helped += 1 }
                guard line.contains(counted), !Self.ofMany.contains(where: { line.contains($0) }) else { continue }
                found.append("\(path): \(line)")
            }
        }
        #expect(found.isEmpty, "\(found.joined(separator: "\n"))")
        // If this is small, what looks for them is broken.
        #expect(helped > 20, "\(helped)")
    }
}
