/// Problems as they are found. Bounded: further ones are only counted.
struct ProblemList: Sendable {
    let file: String
    private(set) var problems: [ConfigurationProblem] = []
    private(set) var omitted = 0

    init(file: String) { self.file = file }

    var count: Int { problems.count + omitted }

    /// The message is only made if there is room for it.
    mutating func report(at position: SourcePosition, _ message: @autoclosure () -> String) {
        guard problems.count < Limits.problems else { omitted += 1; return }
        problems.append(ConfigurationProblem(at: position, message()))
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

    /// Everything reported, in the order of the file.
    var error: ConfigurationProblems? {
        guard count > 0 else { return nil }
        return ConfigurationProblems(
            problems.enumerated()
                .sorted { ($0.element.line, $0.element.column, $0.offset) < ($1.element.line, $1.element.column, $1.offset) }
                .map(\.element),
            omitted: omitted)
    }
}
