import Agent
import AgentConfiguration
import ArgumentParser
import Documents
import Glibc

/// What commands print.
enum Output {
    static func line(_ text: String) { write(1, text + "\n") }
    static func errorLine(_ text: String) { write(2, text + "\n") }

    static func json(_ value: JSONValue) {
        var bytes = value.serialize()
        bytes.append(UInt8(ascii: "\n"))
        write(1, bytes)
    }

    static func write(_ descriptor: Int32, _ text: String) { write(descriptor, Array(text.utf8)) }

    static func write(_ descriptor: Int32, _ bytes: [UInt8]) {
        bytes.withUnsafeBytes { buffer in
            var rest = buffer[...]
            while !rest.isEmpty {
                let count = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                if count <= 0 { return }
                rest = rest.dropFirst(count)
            }
        }
    }
}

/// How commands fail.
enum Failure {
    /// A wrong configuration.
    static let configuration: Int32 = 78
    static let failed: Int32 = 1

    /// Says the error on standard error and gives the exit status that belongs to it.
    static func exit(for error: any Error) -> ExitCode {
        switch error {
        case let code as ExitCode: return code
        case let problems as ConfigurationProblems:
            for problem in problems.problems { Output.errorLine(problem.description) }
            return ExitCode(configuration)
        case let problem as ConfigurationProblem:
            Output.errorLine(problem.description)
            return ExitCode(configuration)
        case let error as AgentError:
            Output.errorLine("nightjar: \(error.message)")
            return ExitCode(error.kind == .configuration ? configuration : failed)
        default:
            Output.errorLine("nightjar: \(error)")
            return ExitCode(failed)
        }
    }
}
