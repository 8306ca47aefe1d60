/// A position in a configuration file. Lines and columns are counted from 1, columns in characters (Unicode scalars).
package struct SourcePosition: Sendable, Hashable, CustomStringConvertible {
    /// The file as the operator named it.
    package var file: String
    /// 0: not a position in a file (a default, a command line option, or a file that cannot be read).
    package var line: Int
    package var column: Int

    package init(file: String, line: Int, column: Int) {
        self.file = file
        self.line = line
        self.column = column
    }

    /// The position of a value that is not in any file: a default.
    package static let none = SourcePosition(file: "", line: 0, column: 0)

    /// `file:line:column`, or only the file.
    package var description: String { line == 0 ? file : "\(file):\(line):\(column)" }
}

/// A value and its position, for checks that only other parts can make (whether a plugin or a key exists). Two are
/// equal if their values are: moving a line is not a change. Strings are compared as bytes.
package struct Located<Value: Sendable>: Sendable {
    package var value: Value
    package var position: SourcePosition

    package init(_ value: Value, at position: SourcePosition = .none) {
        self.value = value
        self.position = position
    }
}

extension Located: Equatable where Value: Equatable {
    package static func == (left: Self, right: Self) -> Bool {
        // String's own == considers different byte sequences equal (Unicode normalisation), but ids and paths are
        // bytes.
        if let leftText = left.value as? String, let rightText = right.value as? String {
            return leftText.utf8.elementsEqual(rightText.utf8)
        }
        return left.value == right.value
    }
}

extension Located: CustomStringConvertible {
    package var description: String { "\(value)" }
}
