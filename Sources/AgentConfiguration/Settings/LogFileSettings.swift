/// Writes the log to its own files, for systems that do not store standard error.
package struct LogFileSettings: Sendable, ConfigurationSection {
    /// The absolute path of the current file.
    package var path = Located("")
    /// Size of a file before it is rotated to `PATH.1`, and so on. Default 1 MiB.
    package var maxBytes = 1 << 20
    /// How many files are kept, including the current one. Default 5.
    package var files = 5
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "log_file"
    static let keys: [Key<LogFileSettings>] = [
        Key("path", \.path, Form<String>.path.located, required: true, "The file to write to, in an existing folder; relative to the configuration's folder."),
        Key("max_bytes", \.maxBytes, Form<Int>.bytes((64 << 10)...(1 << 30)), "Size at which it is renamed to PATH.1, that one to PATH.2, and so on."),
        Key("files", \.files, .integer(1...100), "How many files are kept, including the current one; the oldest is removed."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }
}
