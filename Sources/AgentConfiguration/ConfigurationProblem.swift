/// One error in a configuration. The message says what was found, what was expected and, if there is one, the
/// nearest valid name.
package struct ConfigurationProblem: Error, Sendable, Hashable, CustomStringConvertible {
    package var file: String
    /// Counted from 1; 0 if the problem concerns the whole file.
    package var line: Int
    /// Counted from 1, in characters; 0 if the problem concerns the whole file.
    package var column: Int
    package var message: String
    /// It is about the environment of the process that read the file, which lacks a variable or systemd's credentials; in the agent's own
    /// environment nothing may be wrong.
    package var isOfEnvironment = false

    package init(file: String, line: Int, column: Int, message: String) {
        self.file = file
        self.line = line
        self.column = column
        self.message = message
    }

    /// For checks outside of this module (an unknown plugin, a missing key): a problem at a value's position.
    package init(at position: SourcePosition, _ message: String) {
        self.init(file: position.file, line: position.line, column: position.column, message: message)
    }

    /// `file:line:column: message`, as in compilers' output.
    package var description: String {
        let position = SourcePosition(file: file, line: line, column: column).description
        return position.isEmpty ? message : "\(position): \(message)"
    }
}

/// All errors in a configuration, in the order of the file.
package struct ConfigurationProblems: Error, Sendable, Hashable, CustomStringConvertible {
    package var problems: [ConfigurationProblem]
    /// The number of problems beyond those listed.
    package var omitted: Int

    package init(_ problems: [ConfigurationProblem], omitted: Int = 0) {
        self.problems = problems
        self.omitted = omitted
    }

    /// One problem per line.
    package var description: String {
        var lines = problems.map(\.description)
        if omitted > 0 { lines.append("and \(omitted) more") }
        return lines.joined(separator: "\n")
    }
}
