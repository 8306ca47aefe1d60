import Agent
import ArgumentParser
import Documents
import Encodings
import NIOCore
import PluginHost

struct PluginTestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test", abstract: "Runs the tests beside plugins (NAME.test.lua) in the real sandbox. Exit status 1 if one fails.")

    @OptionGroup var location: ConfigurationOptions
    @Argument(help: "Plugins; all of the folder if absent.") var names: [String] = []
    @Option(help: ArgumentHelp("Also writes the results as JUnit XML; - for standard output.", valueName: "file"), completion: .file()) var junit: String?
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let settings = try location.readWithoutSecrets()
            let suites = try await PluginTests.run(
                folder: try PluginCommand.folder(settings), plugins: names, limits: PluginHostLimits(settings.pluginLimits),
                environment: .system)
            if let junit {
                let file = try OutputFile(junit)
                do {
                    try file.write(ByteBuffer(string: JUnit.text(suites)))
                    try file.finish()
                } catch {
                    file.abandon()
                    throw error
                }
            }
            if json { Output.json(report(suites)) } else if junit != "-" { show(suites) }
            if suites.contains(where: { !$0.isPassed }) { throw ExitCode(Failure.failed) }
        }
    }

    private func show(_ suites: [PluginTests.Suite]) {
        var passed = 0
        var failed = 0
        var milliseconds = 0.0
        for suite in suites {
            let file = suite.file.map { " (\($0))" } ?? (suite.problem == nil ? ": no tests" : "")
            Output.line(TextTable.printable(suite.plugin + file))
            for outcome in suite.outcomes {
                milliseconds += outcome.milliseconds
                let time = "(\(StatusText.decimal(outcome.milliseconds, 2)) ms)"
                guard let problem = outcome.problem else {
                    passed += 1
                    Output.line(TextTable.printable("  ok    \(outcome.name) \(time)"))
                    continue
                }
                failed += 1
                Output.line(TextTable.printable("  FAIL  \(outcome.name) \(time)"))
                Output.line(TextTable.printable("        \(problem)"))
                for line in outcome.differences { Output.line(TextTable.printable("          \(line)")) }
            }
            if let problem = suite.problem {
                failed += 1
                Output.line(TextTable.printable("  FAIL  \(problem)"))
            }
        }
        Output.line("\(passed) passed, \(failed) failed, \(Plural.count(suites.count, "plugin")), \(StatusText.decimal(milliseconds, 1)) ms")
    }

    private func report(_ suites: [PluginTests.Suite]) -> JSONValue {
        JSONOutput.object([
            "ok": .bool(suites.allSatisfy(\.isPassed)),
            "passed": JSONOutput.number(suites.reduce(0) { $0 + $1.outcomes.count { $0.failure == nil } }),
            "failed": JSONOutput.number(suites.reduce(0) { $0 + $1.outcomes.count { $0.failure != nil } + ($1.problem == nil ? 0 : 1) }),
            "plugins": .array(
                suites.map { suite in
                    JSONOutput.object([
                        "name": .string(suite.plugin), "file": JSONOutput.text(suite.file), "problem": JSONOutput.text(suite.problem?.description),
                        "tests": .array(suite.outcomes.map { report($0) }),
                    ])
                }),
        ])
    }

    private func report(_ outcome: PluginTests.Outcome) -> JSONValue {
        let problem = outcome.problem
        return JSONOutput.object([
            "name": .string(outcome.name), "ok": .bool(outcome.failure == nil), "time_ms": JSONOutput.number(outcome.milliseconds),
            "error": outcome.failure.map { JSONOutput.object(["kind": .string($0.kind.rawValue), "message": .string($0.message)]) } ?? .null,
            "file": problem.map { .string($0.file) } ?? .null, "line": problem?.line.map { JSONOutput.number($0) } ?? .null,
            "differences": .array(outcome.differences.map { .string($0) }),
        ])
    }
}

/// Results for continuous-integration servers: the subset of Ant's `<testsuites>` format that all of them understand.
enum JUnit {
    static func text(_ suites: [PluginTests.Suite]) -> String {
        var text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
        for suite in suites {
            let failures = suite.outcomes.count { $0.failure != nil }
            let errors = suite.problem == nil ? 0 : 1
            let seconds = suite.outcomes.reduce(0) { $0 + $1.milliseconds } / 1_000
            text += "  <testsuite name=\"\(escaped(suite.plugin))\" tests=\"\(suite.outcomes.count + errors)\" failures=\"\(failures)\" "
            text += "errors=\"\(errors)\" time=\"\(StatusText.decimal(seconds, 6))\">\n"
            for outcome in suite.outcomes {
                text += testCase(suite, outcome.name, outcome.milliseconds)
                guard let problem = outcome.problem else {
                    text += "/>\n"
                    continue
                }
                let details = ([problem.description] + outcome.differences).joined(separator: "\n")
                text += ">\n      <failure message=\"\(escaped(problem.description))\">\(escaped(details))</failure>\n    </testcase>\n"
            }
            if let problem = suite.problem {
                text += testCase(suite, "loads", 0)
                text += ">\n      <error message=\"\(escaped(problem.description))\"/>\n    </testcase>\n"
            }
            text += "  </testsuite>\n"
        }
        return text + "</testsuites>\n"
    }

    private static func testCase(_ suite: PluginTests.Suite, _ name: String, _ milliseconds: Double) -> String {
        let file = suite.file.map { " file=\"\(escaped($0))\"" } ?? ""
        return "    <testcase classname=\"\(escaped(suite.plugin))\" name=\"\(escaped(name))\"\(file) "
            + "time=\"\(StatusText.decimal(milliseconds / 1_000, 6))\""
    }

    /// XML 1.0 cannot represent control characters at all.
    private static func escaped(_ text: String) -> String {
        var out = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": out += "&amp;"
            case "<": out += "&lt;"
            case ">": out += "&gt;"
            case "\"": out += "&quot;"
            case "\n": out += "&#10;"
            case "\t": out += "&#9;"
            case _ where scalar.value < 0x20 || scalar.value == 0x7F || scalar.value == 0xFFFE || scalar.value == 0xFFFF: out += "?"
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out
    }
}
