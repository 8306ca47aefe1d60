import Encodings

/// Problems in the order in which they are found. Limited in number: any more are only counted.
struct ProblemList: Sendable {
    let file: String
    private(set) var problems: [ConfigurationProblem] = []
    private(set) var omitted = 0
    /// Expanded texts and what was written in the file: an expanded text must not appear in any problem, because it may be a
    /// secret.
    private var expansions: [String: String] = [:]

    init(file: String) { self.file = file }

    var count: Int { problems.count + omitted }

    /// The message is only evaluated if it will be stored.
    mutating func report(at position: SourcePosition, isOfEnvironment: Bool = false, _ message: @autoclosure () -> String) {
        guard problems.count < Limits.problems else { omitted += 1; return }
        var problem = ConfigurationProblem(at: position, hidingExpansions(message()))
        problem.isOfEnvironment = isOfEnvironment
        problems.append(problem)
    }

    mutating func noteExpansion(_ text: String, of source: String) { expansions[text] = source }

    /// The same for everything in a tree.
    mutating func noteExpansions(in node: ConfigurationNode) {
        switch node.content {
        case .scalar(let scalar): if let source = scalar.source { noteExpansion(scalar.text, of: source) }
        case .sequence(let elements): for element in elements { noteExpansions(in: element) }
        case .mapping(let entries): for entry in entries { noteExpansions(in: entry.value) }
        }
    }

    private func hidingExpansions(_ message: String) -> String {
        // Longest first, because one may be part of another.
        let found = expansions.sorted { ($0.key.utf8.count, $0.key) > ($1.key.utf8.count, $1.key) }
        return found.reduce(message) { message, expansion in
            let (text, source) = expansion
            let shown = message.with(ValueQuoting.quoted(text), replacedBy: "what \(ValueQuoting.quoted(source)) expands to")
            // A shorter text would also match unrelated words.
            return text.utf8.count < 5 ? shown : shown.with(text, replacedBy: source)
        }
    }

    mutating func report(file message: String) {
        report(at: SourcePosition(file: file, line: 0, column: 0), message)
    }

    mutating func append(_ other: ProblemList) {
        for problem in other.problems {
            guard problems.count < Limits.problems else { omitted += 1; continue }
            problems.append(problem)
        }
        omitted += other.omitted
    }

    /// All reported problems, in the order of the file.
    var error: ConfigurationProblems? {
        guard count > 0 else { return nil }
        return ConfigurationProblems(
            problems.enumerated()
                .sorted { ($0.element.line, $0.element.column, $0.offset) < ($1.element.line, $1.element.column, $1.offset) }
                .map(\.element),
            omitted: omitted)
    }
}
