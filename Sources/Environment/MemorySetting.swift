extension MemoryBudget {
    /// The `limits.memory`, in bytes, with which an agent takes a document of this size and gives it to peers, whatever they speak: the only number that
    /// is told about it. A single way may need less; then the next way would ask for more.
    ///
    /// - Parameter size: of the document as it is sent, or of the request that brings it, in bytes.
    public static func setting(forDocument size: Int) -> Int {
        // With 56 MiB, any document has room that the protocol of Couchbase Lite may carry; a request's whole body may take three eighths.
        max(min(8 * size + 64, 56 << 20), (size / 3 + 1) * 8 + 8)
    }

    /// How much somebody should set `limits.memory` to, as people write it: the only place where such a number of bytes becomes text, so that the log,
    /// the status and the answers to a peer name the same value for the same document.
    ///
    /// - Parameter needed: in bytes.
    public static func settingText(_ needed: Int) -> String { "\(needed / (1 << 20) + (needed % (1 << 20) == 0 ? 0 : 1))MiB" }

    /// The same for a document of this size.
    public static func settingText(forDocument size: Int) -> String { settingText(setting(forDocument: size)) }
}
