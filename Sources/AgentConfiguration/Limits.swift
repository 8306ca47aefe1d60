/// Every limit of this module. A configuration is written by the operator, but it may arrive from a template, a pipe or by
/// replication, so these limit the cost of reading it.
enum Limits {
    /// Size of a configuration file. A thousand replicators take about 500 KiB.
    static let fileBytes = 1 << 20
    /// Seconds to wait for data from a named pipe, which may have no writer.
    static let waitSeconds: Int32 = 10
    /// Nesting levels. Our own deepest key is at level 6; the rest is for plugins' params.
    static let depth = 32
    /// Keys, values, lists and mappings in one file. Limits the memory: a short node takes 2 bytes in the file and about 200
    /// in memory.
    static let nodes = 100_000
    /// Size of a single `${ENV}` or `${file:PATH}` expansion: enough for a certificate chain, but not for a disk image.
    static let expansionBytes = 64 << 10
    /// Total size of all expansions in one file.
    static let totalExpansionBytes = 4 << 20
    /// Problems that are reported with their text; any more are only counted.
    static let problems = 200
    /// Length of a name for which the nearest valid one is searched (which takes quadratic time).
    static let suggestionBytes = 64
    /// Number of names among which the nearest one is searched, so that an invalid file is refused quickly however long its
    /// lists are.
    static let suggestionCandidates = 500
    /// Characters of a value quoted in a problem.
    static let quotedCharacters = 60
    /// The longest duration allowed in a setting, in seconds: a year. Keeps deadline arithmetic far from overflow.
    static let seconds = 31_536_000
}
