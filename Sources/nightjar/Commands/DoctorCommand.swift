import Agent
import AgentConfiguration
import ArgumentParser
import Documents
import Environment
import NIOPosix

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Checks everything that an agent needs, and says what is wrong and how to fix it.",
        discussion: """
            Configuration, plugins, time, disk, quotas, certificates, listeners' ports, each peer (name, address, TLS, login), the agent's own health, and what \
            the databases store, read whole. It works with or without a running agent, and changes nothing. Each peer is connected to once, and disconnected again; \
            programs and serial lines are not touched. Exit status 1 if something is wrong; a warning alone is 0.
            """)

    @OptionGroup var location: ConfigurationOptions
    @Flag(help: "Do not contact peers: look up no names and open no connections.") var offline = false
    @Flag(help: "Do not read the contents of the databases: if no agent runs, they are only opened, as at a start.") var quick = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let findings = await Diagnosis(location: location, tellsPeers: !offline, readsStore: !quick).findings { finding in
                if !json { show(finding) }
            }
            let wrong = findings.count { $0.verdict == .wrong }
            let warnings = findings.count { $0.verdict == .warning }
            if json {
                Output.json(JSONOutput.object(["ok": .bool(wrong == 0), "findings": .array(findings.map(\.json))]))
            } else {
                Output.line(wrong == 0 && warnings == 0 ? "all is well" : "\(wrong) wrong, \(warnings) to look at")
            }
            if wrong > 0 { throw ExitCode(Failure.failed) }
        }
    }

    private func show(_ finding: Finding) {
        let verdict = finding.verdict.rawValue
        let gap = String(repeating: " ", count: max(0, 8 - verdict.utf8.count))
        Output.line("\(verdict)\(gap) \(finding.area): \(TextTable.printable(finding.text))")
        if !finding.mend.isEmpty { Output.line("         mend: \(TextTable.printable(finding.mend))") }
    }
}
