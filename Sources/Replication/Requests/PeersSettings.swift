/// Settings that a peer names in what it says: its words are shown here, where they would be taken for this agent's.
enum PeersSettings {
    private static let names = ["max_document_bytes", "max_blob_bytes", "limits.memory", "limits: {", "quota", "couchdb_"]
    /// Words of a peer that says itself whose setting it means.
    private static let marks = [" there", "of the agent that"]

    /// The peer's words, with whose setting they name, if they name one and do not say it.
    static func marked(_ words: String) -> String {
        guard names.contains(where: words.contains), !marks.contains(where: words.contains) else { return words }
        return "\(words) (a setting of the peer's)"
    }
}
