import Documents
import TestSupport

/// One case of Tests/Vectors/hostile, as `nightjar plugin run` is asked about it; the README there explains the form.
struct HostileCase: Sendable, CustomStringConvertible {
    var id: String
    var hook = "push_filter"
    var isWholePlugin = false
    var times = 1
    var document = "plain"
    var outcomes: [Substring] = []
    var text = ""
    var body: [UInt8] = []

    var description: String { id }

    static func family(_ name: String) -> [HostileCase] {
        guard let bytes = try? TemporaryFolder.bytes(of: "\(NightjarExecutable.package())/Tests/Vectors/hostile/\(name).lua") else { return [] }
        var cases: [HostileCase] = []
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("--# ") {
                cases.append(HostileCase(header: line.dropFirst(4)))
            } else if !cases.isEmpty {
                cases[cases.count - 1].body += Array(String(line).replacing("%ESC%", with: "\u{1B}").utf8) + [10]
            }
        }
        return cases
    }

    private init(header: Substring) {
        let fields = header.split(separator: " | ", omittingEmptySubsequences: false)
        id = String(fields[0].split(separator: " ")[0])
        for option in fields.dropFirst().dropLast().map({ $0.split(separator: " ") }) {
            switch option[0] {
            case "load": isWholePlugin = true
            case "resolve": hook = "resolve"
            case "password": hook = "authenticate_password"
            case "times": times = Int(option[1]) ?? 1
            default: document = String(option[1])
            }
        }
        let outcome = fields.last ?? ""
        if outcome.hasPrefix("= ") {
            outcomes = [outcome]
        } else {
            let parts = outcome.split(separator: " ~ ", maxSplits: 1)
            outcomes = (parts.first ?? "").split(separator: " ")[0].split(separator: "/")
            text = parts.count > 1 ? String(parts[1]) : ""
        }
    }

    var source: [UInt8] {
        if isWholePlugin { return body }
        let parameters = switch hook {
        case "resolve": "conflict, ctx"
        case "authenticate_password": "username, password, ctx"
        default: "doc, ctx"
        }
        return Array("return { \(hook) = function(\(parameters))\n".utf8) + body + Array("end\(patience) }\n".utf8)
    }

    /// Where a case may not run out of time, a slow machine gives it more.
    private var patience: String {
        outcomes.contains("timeout")
            ? "" : ", limits = { cpu_ms = 500, instructions = 100000000, resolver_cpu_ms = 2500, resolver_instructions = 500000000 }"
    }

    static let conflict = #"{"local_doc":{"n":1,"part":{"x":1}},"remote_doc":{"n":2,"list":[1,2]},"base_doc":{"n":0}}"#

    static func document(named name: String) -> String {
        switch name {
        case "wide": "{" + (0..<100_000).map { "\"f\($0)\":\($0)" }.joined(separator: ",") + "}"
        case "long": "{\"text\":\"" + String(repeating: "x", count: 900_000) + "\"}"
        case "deep": String(repeating: "{\"d\":", count: 30) + "{}" + String(repeating: "}", count: 30)
        case "list": "{\"list\":[" + (1...100_000).map { "\($0)" }.joined(separator: ",") + "]}"
        default: #"{"type":"a","n":1,"list":[1,2,3],"nested":{"x":{"y":1}},"text":"abc"}"#
        }
    }
}
