/// One thing that is wrong with a configuration. The message says what was seen, what was expected and, where there
/// is one, the nearest valid name.
package struct ConfigurationProblem: Error, Sendable, Hashable, CustomStringConvertible {
    package var file: String
    /// From 1; 0 when the problem is the file itself.
    package var line: Int
    /// From 1, in characters; 0 when the problem is the file itself.
    package var column: Int
    package var message: String

    package init(file: String, line: Int, column: Int, message: String) {
        self.file = file
        self.line = line
        self.column = column
        self.message = message
    }

    /// For checks outside this module (an unknown plugin, a missing key): a problem at a value's place.
    package init(at position: SourcePosition, _ message: String) {
        self.init(file: position.file, line: position.line, column: position.column, message: message)
    }

    /// `file:line:column: message`, as compilers write it.
    package var description: String {
        let position = SourcePosition(file: file, line: line, column: column).description
        return position.isEmpty ? message : "\(position): \(message)"
    }
}

/// All that is wrong with a configuration, in the order of the file.
package struct ConfigurationProblems: Error, Sendable, Hashable, CustomStringConvertible {
    package var problems: [ConfigurationProblem]
    /// Problems found beyond those listed.
    package var omitted: Int

    package init(_ problems: [ConfigurationProblem], omitted: Int = 0) {
        self.problems = problems
        self.omitted = omitted
    }

    /// One problem a line.
    package var description: String {
        var lines = problems.map(\.description)
        if omitted > 0 { lines.append("and \(omitted) more") }
        return lines.joined(separator: "\n")
    }
}
