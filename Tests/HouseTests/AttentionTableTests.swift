import Testing

/// The table of what needs attention in the guide of operating is the one in the code.
@Suite("What needs attention")
struct AttentionTableTests {
    private static func names(_ text: Substring, between mark: Character) -> [String] {
        text.split(separator: mark, omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) }
    }

    @Test("every kind is in the guide, with its gravity, and no other")
    func table() {
        let guide = String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/examples/guides/operating.md"), as: UTF8.self)
        let code = String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/Sources/Agent/Attention/AttentionKind.swift"), as: UTF8.self)
        var told: [String: String] = [:]
        for line in guide.split(separator: "\n") {
            let cells = line.split(separator: "|")
            guard cells.count == 3, [" unhealthy ", " attention "].contains(cells[1]) else { continue }
            for name in Self.names(cells[0], between: "`") { told[name] = cells[1].trimming }
        }
        // `case pluginRefused = "plugin_refused"`, then `case .pluginRefused, …: .unhealthy`
        let names = code.split(separator: "\n").filter { $0.contains("    case ") && $0.contains(" = \"") }.flatMap { Self.names($0, between: "\"") }
        #expect(told.keys.sorted() == names.filter { $0.contains("_") }.sorted())
        #expect(Set(told.values) == ["attention", "unhealthy"])
    }
}

extension Substring {
    fileprivate var trimming: String { String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()) }
}
