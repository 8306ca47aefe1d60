@testable import AgentConfiguration

extension FuzzTarget {
    /// A configuration file: settings, or problems that say where. Nothing that a variable holds is revealed.
    static let configuration = FuzzTarget("yaml", longestInput: 4_096) { bytes in
        let secret = "hunter2-in-a-variable"
        let environment = ["HUB_PASSWORD": secret, "NAME": "value", "N": "7"]
        let settings: AgentSettings
        do throws(ConfigurationProblems) {
            settings = try AgentSettings.parse(bytes, file: "f", folder: "/nowhere", environment: environment)
        } catch {
            try hold(!error.problems.isEmpty, "refused without a problem")
            let lines = bytes.reduce(1) { $0 + ($1 == UInt8(ascii: "\n") || $1 == UInt8(ascii: "\r") ? 1 : 0) } + bytes.count / 2
            for problem in error.problems {
                try hold(problem.line >= 0 && problem.line <= lines + 1 && problem.column >= 0 && !problem.message.isEmpty, "no place: \(problem)")
            }
            let shown = error.description
            try hold(!shown.contains(secret) || bytes.count >= secret.utf8.count && String(decoding: bytes, as: UTF8.self).contains("hunter2"), "a secret is told")
            try hold(shown.utf8.count <= 20_000 + 64 * bytes.count, "\(shown.utf8.count) bytes about \(bytes.count)")
            return
        }
        try hold(settings.difference(from: settings).isEmpty, "settings differ from themselves")
        let again = try AgentSettings.parse(bytes, file: "f", folder: "/nowhere", environment: environment)
        try hold(settings.difference(from: again).isEmpty, "reading twice differs")
    }
}
