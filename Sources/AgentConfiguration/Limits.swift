/// Every bound of this target. A configuration is written by the operator, but it may arrive from a template, a
/// pipe or by replication, so reading it never costs more than these.
enum Limits {
    /// Bytes of one configuration file. A thousand replicators take about 500 KiB.
    static let fileBytes = 1 << 20
    /// Seconds without a byte for which a named pipe is waited for: nobody may be at its other end.
    static let waitSeconds: Int32 = 10
    /// Levels of nesting. The deepest key of our own is at level 6; the rest is for the params of plugins.
    static let depth = 32
    /// Keys, values, lists and mappings in one file. Bounds memory: short nodes are 2 bytes of file and about 200 of memory.
    static let nodes = 100_000
    /// Bytes that one `${ENV}` or `${file:PATH}` may bring in: a certificate chain fits, a disk image does not.
    static let expansionBytes = 64 << 10
    /// Bytes that all expansions of one file may bring in together.
    static let totalExpansionBytes = 4 << 20
    /// Problems that are reported with their text; further ones are only counted.
    static let problems = 200
    /// Bytes of a name for which the nearest valid one is looked for (the search is quadratic in it).
    static let suggestionBytes = 64
    /// Names among which the nearest one is looked for, so that a wrong file is refused at once however long its lists are.
    static let suggestionCandidates = 500
    /// Characters of a value that are quoted in a problem.
    static let quotedCharacters = 60
    /// The longest duration that a setting may ask for, in seconds: a year. Keeps arithmetic on deadlines far from overflow.
    static let seconds = 31_536_000
}
