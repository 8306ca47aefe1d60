import Documents
import Glibc
import TestSupport
import Testing

/// Every hostile case through the real executable: the command ends by itself with the right answer or kind of failure, and
/// nothing of the plugin's reaches the terminal or the disk.
@Suite struct HostileTests {
    @Test(arguments: ["cpu", "mem", "esc", "leak", "load", "res", "err", "bug", "lib"])
    func theCommandSurvives(_ family: String) async throws {
        let cases = HostileCase.family(family)
        #expect(cases.count >= 15)
        let folder = try TemporaryFolder()
        for name in ["plain", "wide", "long", "deep", "list"] { try folder.write("\(name).json", HostileCase.document(named: name)) }
        try folder.write("conflict.json", HostileCase.conflict)
        try folder.write("p/good.lua", "return { push_filter = function(doc) return doc.n == 1 and _G.evil == nil end }")
        for hostile in cases {
            try folder.write("p/\(hostile.id).lua", bytes: hostile.source)
            var arguments = ["plugin", "run", hostile.id, hostile.hook, "--plugins", folder.path("p"), "--json", "--times", "\(hostile.times)"]
            switch hostile.hook {
            case "resolve": arguments += ["--conflict", folder.path("conflict.json")]
            case "authenticate_password": arguments += ["--username", "ann", "--password", "pw"]
            default: arguments += ["--doc", folder.path("\(hostile.document).json")]
            }
            let outcome = try await Subprocess.run(try NightjarExecutable.path(), arguments, folder: folder.path)
            try judge(hostile, outcome)
            folder.remove("p/\(hostile.id).lua")
        }
        let good = try await NightjarExecutable.run(
            "plugin", "run", "good", "push_filter", "--doc", folder.path("plain.json"), "--plugins", folder.path("p"), "--json")
        #expect(try good.json["result"] == true)
    }

    private func judge(_ hostile: HostileCase, _ outcome: Subprocess.Outcome) throws {
        #expect(outcome.signal == nil && (outcome.status == 0 || outcome.status == 1), "\(hostile.id): \(outcome.description.prefix(2000))")
        #expect(outcome.errors.isEmpty, "\(hostile.id): \(outcome.errors.prefix(500))")
        guard let last = outcome.lines.last, outcome.lines.count <= hostile.times else {
            Issue.record("\(hostile.id): \(outcome.lines.count) lines instead of \(hostile.times)")
            return
        }
        let report = try JSONValue(parsing: last)
        let answer: String
        if let kind = report["error"]?["kind"]?.asString {
            answer = String(kind.dropFirst("plugin_".count))
            let message = report["error"]?["message"]?.asString ?? ""
            let isSlow = answer == "timeout" && getenv("NIGHTJAR_SANITIZER") != nil
            #expect(message.contains(hostile.text) || isSlow, "\(hostile.id): \(message)")
        } else if hostile.hook == "resolve" {
            let decision = report["decision"]?.asString ?? "?"
            answer = decision == "merged" ? hostile.outcomes.first.map(String.init) ?? "" : decision
            if decision == "merged", let expected = hostile.outcomes.first?.dropFirst(2) {
                #expect(try report["result"] == JSONValue(parsing: Array(expected.utf8)), "\(hostile.id)")
            }
        } else {
            answer = report["result"].map { "\($0.text)" } ?? "?"
        }
        // Under a sanitizer (`Tests/run --sanitize`) the same milliseconds get less far.
        if answer == "timeout", getenv("NIGHTJAR_SANITIZER") != nil { return }
        #expect(hostile.outcomes.contains { $0 == answer }, "\(hostile.id): \(answer) \(report["error"]?["message"]?.asString ?? "")")
        #expect((report["memory_bytes"]?.asInt64 ?? 0) <= 16 << 20, "\(hostile.id)")
        // An escape would have shown itself.
        #expect(!TemporaryFolder.exists("/tmp/nightjar-escaped"), "\(hostile.id)")
    }
}

extension TemporaryFolder {
    fileprivate static func exists(_ path: String) -> Bool { (try? bytes(of: path)) != nil }
}
