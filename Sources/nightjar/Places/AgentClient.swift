import Agent
import AgentConfiguration
import Documents
import Glibc
import HTTPServer
import Interfaces
import NIOCore
import Replication
import Transport

/// The commands' connection to a running agent: the admin API on the local socket in its data folder.
struct AgentClient: Sendable {
    let socket: String
    private let client: HTTPClient

    /// The agent of a configuration or of a data folder; nil if none is running there.
    ///
    /// - Throws: ``AgentError`` if there is a socket that this user may not use.
    static func find(_ settings: AgentSettings, group: any EventLoopGroup) throws(AgentError) -> AgentClient? {
        try presence(settings, group: group).client
    }

    /// The agent of a configuration or of a data folder.
    ///
    /// - Throws: ``AgentError`` naming the place where it was expected.
    static func require(_ settings: AgentSettings, group: any EventLoopGroup) throws(AgentError) -> AgentClient {
        let (client, why) = try presence(settings, group: group)
        if let client { return client }
        let data = settings.data.value
        let advice =
            if let file = settings.file { self.advice(file: file, data: data) } else { "Name the agent's data folder with --data, or its configuration with --config" }
        throw AgentError(.failed, "no agent runs here: \(AdminServer.socketPath(data: data)): \(why). \(advice)")
    }

    /// The agent that was started with the configuration's file, where it runs on another data folder than the file says now.
    ///
    /// - Throws: ``AgentError`` as ``require(_:group:)``, if there is none, or more than one.
    static func requireAnywhere(_ settings: AgentSettings, group: any EventLoopGroup) throws(AgentError) -> AgentClient {
        if let client = try find(settings, group: group) { return client }
        let folders = settings.file.map { RunningAgents.folders(config: $0) } ?? []
        guard folders.count == 1, let folder = folders.first else { return try require(settings, group: group) }
        return AgentClient(socket: AdminServer.socketPath(data: folder), group: group)
    }

    private static func advice(file: String, data: String) -> String {
        let place = "With --config \(file) the data folder is \(data), and commands use the socket in it, not the admin port. "
        let folders = RunningAgents.folders(config: file)
        guard folders.isEmpty else {
            return place + "An agent that was started with this file runs on another data folder, because data in the file has changed since, or --data was given: "
                + "name that folder: \(folders.map { "--data \($0)" }.joined(separator: " or "))"
        }
        return place + "Start the agent (systemctl start nightjar, or nightjar run --config \(file)); if it runs on another data folder, as when data in the file "
            + "has changed since it started, name that with --data"
    }

    private static func presence(
        _ settings: AgentSettings, group: any EventLoopGroup
    ) throws(AgentError) -> (client: AgentClient?, why: String) {
        let path = AdminServer.socketPath(data: settings.data.value)
        switch LocalSocket.connectError(path) {
        case nil: return (AgentClient(socket: path, group: group), "")
        case .some(let error) where [ENOENT, ECONNREFUSED, ENOTDIR, ENAMETOOLONG].contains(error):
            return (nil, error == ECONNREFUSED ? "left by an agent that ended, nobody answers" : String(cString: strerror(error)))
        case .some(let error):
            let advice = [EACCES, EPERM].contains(error) ? "; \(AgentUser.advice(data: settings.data.value))" : ""
            throw AgentError(.failed, "the agent's socket \(path) cannot be used: \(String(cString: strerror(error)))\(advice)")
        }
    }

    init(socket: String, group: any EventLoopGroup) {
        self.socket = socket
        client = HTTPClient(.unix(path: socket), group: group)
    }

    // MARK: - Requests

    /// Sends a request and returns the answer's JSON.
    ///
    /// - Parameter path: its components are percent-encoded.
    /// - Throws: ``AgentError`` with the agent's own message if it refuses.
    func request(
        _ method: String, _ path: String, body: [UInt8]? = nil, timeout: TimeAmount? = .seconds(60)
    ) async throws -> JSONValue {
        let answer = try await bytes(method, path, body: body, timeout: timeout)
        do { return try JSONValue(stored: answer) } catch { throw unexpected("\(error)") }
    }

    /// Sends a request and returns the answer's body.
    func bytes(
        _ method: String, _ path: String, body: [UInt8]? = nil, timeout: TimeAmount? = .seconds(60)
    ) async throws -> [UInt8] {
        let response = try await reaching {
            try await client.request(
                method, path, body: body.map { .buffer(ByteBuffer(bytes: $0)) } ?? .none, timeout: timeout)
        }
        let bytes = Array(response.body.readableBytesView)
        try check(response.status, bytes)
        return bytes
    }

    /// The body of a GET, even if its status says that the agent is unhealthy.
    func everyStatus(_ path: String) async throws -> [UInt8] {
        Array(try await reaching { try await client.request("GET", path, timeout: .seconds(60)) }.body.readableBytesView)
    }

    /// Sends a request and passes the answer's body on as it arrives.
    func receive(_ path: String, _ write: @Sendable (ByteBuffer) async throws -> Void) async throws {
        try await reaching {
            try await client.stream("GET", path) { head, body in
                guard head.status == 200 else {
                    var bytes: [UInt8] = []
                    while let piece = try await body.next(), bytes.count < 1 << 20 { bytes += piece.readableBytesView }
                    return try check(head.status, bytes)
                }
                while let piece = try await body.next() { try await write(piece) }
            }
        }
    }

    /// Sends a request whose answer is an array, and passes each row on as JSON when it arrives. However many rows there are, all are included.
    func rows(_ path: String, _ each: @escaping @Sendable ([UInt8]) throws -> Void) async throws {
        // The array arrives with one element per line.
        let lines = LineReader()
        try await receive(path) { piece in
            try lines.append(piece) { line in
                guard line.first == UInt8(ascii: "{") else { return }
                try each(line.last == UInt8(ascii: ",") ? line.dropLast() : line)
            }
        }
    }

    /// Sends a body piece by piece, at the agent's pace, until `next` returns nil.
    ///
    /// - Parameter broken: added to the error if the connection breaks before the answer.
    func send(_ path: String, broken: String? = nil, _ next: @escaping @Sendable () async throws -> ByteBuffer?) async throws -> JSONValue {
        let response = try await reaching(broken: broken) {
            try await client.request(
                "POST", path,
                body: .stream { writer in
                    while let piece = try await next() { try await writer.write(piece) }
                }, timeout: nil)
        }
        let bytes = Array(response.body.readableBytesView)
        try check(response.status, bytes)
        do { return try JSONValue(parsing: bytes) } catch { throw unexpected("\(error)") }
    }

    // MARK: - Errors

    /// `agent_answer`: seconds to wait for a sign of life. A request such as a backup may take longer, but a live agent answers a status check at
    /// once.
    private static let answerSeconds: Int64 = 5

    private func reaching<T>(broken: String? = nil, _ work: () async throws -> T) async throws -> T {
        do { _ = try await client.request("GET", "/live", timeout: .seconds(Self.answerSeconds)) } catch let error as ReplicationError
            where error.domain == .network && error.code == ReplicationError.NetworkCode.timeout.rawValue
        {
            throw AgentError(
                .failed,
                "the agent on \(socket) accepted the connection but did not answer within \(Self.answerSeconds) s: it hangs, was stopped by a signal, or its "
                    + "machine is overloaded. Look at its process (systemctl status nightjar, ps -o pid,stat,time,args -C nightjar; T is stopped: kill -CONT PID) "
                    + "and at the end of its log; if it stays, restart it")
        } catch is ReplicationError {
            // The request's own error is more precise.
        }
        do { return try await work() } catch let error as ReplicationError {
            if let broken { throw AgentError(.failed, "the agent on \(socket) is gone, or closed the connection (\(error.message)): \(broken)") }
            if let reason = LocalSocket.connectError(socket), [ENOENT, ECONNREFUSED].contains(reason) {
                throw AgentError(.failed, "the agent on \(socket) has ended in the meantime")
            }
            throw AgentError(.failed, "the agent on \(socket) does not answer as it should: \(error.message)")
        }
    }

    private func check(_ status: Int, _ body: [UInt8]) throws {
        guard !(200..<300).contains(status) else { return }
        let json = try? JSONValue(parsing: body)
        let reason = json?["reason"]?.asString ?? "HTTP \(status)"
        switch status {
        case 400: throw AgentError(json?["error"]?.asString == "configuration" ? .configuration : .invalid, reason)
        case 404: throw AgentError(.notFound, reason)
        case 409: throw AgentError(.conflict, reason)
        case 413: throw AgentError(.tooLarge, reason)
        default: throw AgentError(.failed, reason)
        }
    }

    private func unexpected(_ why: String) -> AgentError { AgentError(.failed, "the answer of the agent on \(socket) is not JSON: \(why)") }
}

/// Just enough of Unix domain sockets to find an agent.
enum LocalSocket {
    /// Nil if a process accepts connections on the socket, otherwise the system's error number.
    static func connectError(_ path: String) -> Int32? {
        switch open(path) {
        case .success(let descriptor):
            close(descriptor)
            return nil
        case .failure(let failure): return failure.code
        }
    }

    /// The descriptor of a connection.
    ///
    /// - Throws: ``AgentError`` that says why the connection failed.
    static func connect(_ path: String) throws(AgentError) -> Int32 {
        switch open(path) {
        case .success(let descriptor): return descriptor
        case .failure(let failure): throw AgentError(.failed, "\(path): \(String(cString: strerror(failure.code)))")
        }
    }

    private struct Failure: Error { var code: Int32 }

    private static func open(_ path: String) -> Result<Int32, Failure> {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count <= AdminServer.maximumSocketPath else { return .failure(Failure(code: ENAMETOOLONG)) }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return .failure(Failure(code: errno)) }
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0 else {
            let code = errno
            close(descriptor)
            return .failure(Failure(code: code))
        }
        return .success(descriptor)
    }
}
