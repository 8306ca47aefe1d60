import Testing

/// The engine's machines decide in terms of their own: how something is told on a wire is a dialect's to know, the numbers of errors the
/// errors' own, and what a version's name says the store's.
@Suite("The engine speaks no protocol")
struct EngineTests {
    private static let engine = "Sources/Replication/Engine"

    /// What would say that a machine looks at a wire form, and whose that is.
    private static let words: [(word: String, owner: String)] = [
        (".http", "Sources/Interfaces/ErrorMeanings.swift"), (".websocket", "Sources/Interfaces/ReplicationError.swift"),
        (".litecore", "Sources/Replication/BLIPDialect/ReplyErrors.swift"), ("domain:", "Sources/Interfaces/ErrorMeanings.swift"),
        (".code", "Sources/Interfaces/ErrorMeanings.swift"), ("code:", "Sources/Interfaces/ErrorMeanings.swift"),
        ("flags", "Sources/Replication/BLIPDialect"), ("JSON", "Sources/Replication/BLIPDialect"), ("LegacyAttachments", "Sources/Replication/BLIPDialect"),
        ("BLIP", "Sources/Replication/BLIPDialect"), ("HTTP", "Sources/Replication/CouchDialect"),
        (".generation >", "Sources/Replication/Driver/VersionNames.swift"), ("RevisionTree", "Sources/Replication/Driver/VersionNames.swift"),
        ("VersionVector(", "Sources/Replication/Driver/VersionNames.swift"), (".json", "Sources/Replication/Checkpoints/CheckpointBody.swift"),
        ("MessageError", "Sources/Replication/Driver/MessageError.swift"), ("Exclusion(", "Sources/Replication/Driver"),
    ]

    @Test("Its code does not mention one")
    func noWords() {
        let files = SourceFiles.swift(under: Self.engine)
        #expect(files.count > 20, "the engine is not in \(Self.engine)")
        for file in files {
            let code = String(decoding: CodeText(SourceFiles.bytes(of: "\(SourceFiles.root)/\(file)")).bytes, as: UTF8.self)
            for (word, owner) in Self.words where code.contains(word) { Issue.record("\(file): \(word): that is for \(owner) to know") }
        }
    }
}
