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

    static func write(_ descriptor: Int32, _ bytes: [UInt8]) { try? bytes.withUnsafeBytes { try writeAll(descriptor, $0) } }

    /// - Throws: ``AgentError``, also if the reader of a pipe has gone.
    static func writeAll(_ descriptor: Int32, _ buffer: UnsafeRawBufferPointer) throws {
        var rest = buffer[...]
        while !rest.isEmpty {
            let count = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN {
                // Another program has made the pipe or terminal non-blocking.
                var wanted = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&wanted, 1, -1)
                continue
            }
            if count < 0, errno == EPIPE, descriptor == 1 {
                // The reader has stopped reading, as in `export main | head`. The event loops ignore SIGPIPE, so its
                // default is restored here.
                signal(SIGPIPE, SIG_DFL)
                raise(SIGPIPE)
            }
            guard count > 0 else { throw AgentError(.failed, "cannot write: \(String(cString: strerror(errno)))") }
            rest = rest.dropFirst(count)
        }
    }
}

/// How commands fail.
enum Failure {
    /// A wrong configuration.
    static let configuration: Int32 = 78
    static let failed: Int32 = 1
    /// `doc why` was asked about an id that is unknown everywhere.
    static let unknownDocument: Int32 = 3

    /// Runs a command; an error is printed on standard error and determines the exit status.
    static func reporting(_ work: () async throws -> Void) async throws {
        do { try await work() } catch { throw exit(for: error) }
    }

    /// Prints the error on standard error and returns the exit status for it.
    static func exit(for error: any Error) -> any Error {
        switch error {
        case let code as ExitCode: return code
        case is ValidationError: return error
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
