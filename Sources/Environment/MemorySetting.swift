extension MemoryBudget {
    /// How much somebody should set `limits.memory` to, as people write it: the only place where such a number of bytes becomes text, so that the log,
    /// the status and the answers to a peer name the same value for the same document.
    ///
    /// - Parameter needed: in bytes.
    public static func settingText(_ needed: Int) -> String { "\(needed / (1 << 20) + (needed % (1 << 20) == 0 ? 0 : 1))MiB" }
}
