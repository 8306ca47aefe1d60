/// State while a file is being read: the present path, and the problems so far.
struct Reading {
    let file: String
    /// The file's absolute folder; relative paths are relative to it.
    let folder: String
    var problems: ProblemList
    /// Names of sections with errors. Checks across sections skip what depends on them, so that one mistake leads to one problem.
    var damaged: Set<String> = []
    /// The settings are an overlay for another configuration, which has whatever is missing here.
    var isPartial = false
    private var path: [PathPart] = []

    private enum PathPart {
        case key(String)
        case index(Int)
    }

    init(file: String, folder: String, problems: ProblemList) {
        self.file = file
        self.folder = folder
        self.problems = problems
    }

    mutating func within<Value>(key: String, _ body: (inout Reading) -> Value) -> Value {
        path.append(.key(key))
        defer { path.removeLast() }
        return body(&self)
    }

    mutating func within<Value>(index: Int, _ body: (inout Reading) -> Value) -> Value {
        path.append(.index(index))
        defer { path.removeLast() }
        return body(&self)
    }

    /// Reports a problem, with the path of keys that leads to it.
    mutating func report(at position: SourcePosition, _ message: @autoclosure () -> String) {
        let place = problems.count < Limits.problems ? pathText : ""
        problems.report(at: position, place.isEmpty ? message() : "\(place): \(message())")
    }

    /// Counts everything that could not be read, including failed expansions that were reported earlier: if this has grown, the
    /// result is incomplete, and checks on it would only repeat the first problem.
    var failures: Int { problems.count + unresolved }
    private var unresolved = 0

    /// Whether the value is missing because its expansion failed, so that no second problem need be reported.
    mutating func noteUnresolved(_ node: ConfigurationNode) -> Bool {
        guard node.scalar?.isUnresolved == true else { return false }
        unresolved += 1
        return true
    }

    /// Reports that a node is not of the expected kind.
    mutating func reportMismatch(_ node: ConfigurationNode, expected: String) {
        if noteUnresolved(node) { return }
        report(at: node.position, "expected \(expected), found \(ValueQuoting.found(node))\(ValueQuoting.withoutQuotes(node) ? "; leave out the quotes" : "")")
    }

    private var pathText: String {
        var text = ""
        for part in path {
            switch part {
            case .key(let key):
                let shown = String(key.unicodeScalars.prefix(Limits.quotedCharacters).filter { $0.value >= 0x20 && $0.value != 0x7F })
                text += text.isEmpty ? shown : ".\(shown)"
            case .index(let index): text += "[\(index)]"
            }
        }
        return text
    }
}
