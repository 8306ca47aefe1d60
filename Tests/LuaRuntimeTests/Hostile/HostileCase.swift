import Glibc
import LuaRuntime
import Testing

/// One case of Tests/Vectors/hostile; its README explains the form.
struct HostileCase: Sendable, CustomTestStringConvertible {
    enum Target: Sendable { case filterBody, plugin, resolverBody, authenticatorBody }

    var id: String
    var title: String
    var target = Target.filterBody
    var times = 1
    var document = "plain"
    /// `true`, `false`, kinds of failure, `local`, `remote`, `delete`, or `= JSON`.
    var outcomes: [String] = []
    /// Part of the message of a failure.
    var text = ""
    var body = ""

    var testDescription: String { "\(id) \(title)" }

    static let families = ["cpu", "mem", "esc", "leak", "load", "res", "err", "bug", "lib"]

    /// All cases of a family.
    static func family(_ name: String) -> [HostileCase] {
        let folder = #filePath.split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 } + "/Vectors/hostile"
        guard let file = fopen("\(folder)/\(name).lua", "r") else { return [] }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = fread(&block, 1, block.count, file), count > 0 { bytes += block[..<count] }
        var cases: [HostileCase] = []
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("--# ") {
                cases.append(HostileCase(header: line.dropFirst(4)))
            } else if !cases.isEmpty {
                cases[cases.count - 1].body += String(line).replacing("%ESC%", with: "\u{1B}") + "\n"
            }
        }
        return cases
    }

    private init(header: Substring) {
        let fields = header.split(separator: " | ", omittingEmptySubsequences: false)
        let name = fields[0].split(separator: " ", maxSplits: 1)
        id = String(name[0])
        title = name.count > 1 ? String(name[1]) : ""
        for option in fields.dropFirst().dropLast() {
            let words = option.split(separator: " ")
            switch words.first {
            case "load": target = .plugin
            case "resolve": target = .resolverBody
            case "password": target = .authenticatorBody
            case "times": times = Int(words[1]) ?? 1
            case "doc": document = String(words[1])
            default: fatalError("\(id): unknown option \(option)")
            }
        }
        let outcome = fields.last ?? ""
        if outcome.hasPrefix("= ") {
            outcomes = [String(outcome)]
        } else {
            let parts = outcome.split(separator: " ~ ", maxSplits: 1)
            outcomes = (parts.first ?? "").split(separator: " ")[0].split(separator: "/").map(String.init)
            text = parts.count > 1 ? String(parts[1]) : ""
        }
    }

    /// The plugin's source.
    var source: String {
        switch target {
        case .plugin: body
        case .filterBody: "return { push_filter = function(doc, ctx)\n\(body)\nend }"
        case .resolverBody: "return { resolve = function(conflict, ctx)\n\(body)\nend }"
        case .authenticatorBody: "return { authenticate_password = function(username, password, ctx)\n\(body)\nend }"
        }
    }

    static func document(named name: String) -> String {
        switch name {
        case "wide": "{" + (0..<100_000).map { "\"f\($0)\":\($0)" }.joined(separator: ",") + "}"
        case "long": "{\"text\":\"" + String(repeating: "x", count: 900_000) + "\"}"
        case "deep": String(repeating: "{\"d\":", count: 30) + "{}" + String(repeating: "}", count: 30)
        case "list": "{\"list\":[" + (1...100_000).map { "\($0)" }.joined(separator: ",") + "]}"
        default: "{\"type\":\"a\",\"n\":1,\"list\":[1,2,3],\"nested\":{\"x\":{\"y\":1}},\"text\":\"abc\"}"
        }
    }

    static let conflict = LuaConflict(
        id: "doc", local: LuaDocument("{\"n\":1,\"part\":{\"x\":1}}"), remote: LuaDocument("{\"n\":2,\"list\":[1,2]}"),
        base: LuaDocument("{\"n\":0}"), localRevision: "2-a", remoteRevision: "2-b", baseRevision: "1-c")
}
