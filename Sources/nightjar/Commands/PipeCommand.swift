import Agent
import AgentConfiguration
import ArgumentParser
import Glibc

struct PipeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pipe", abstract: "Connects standard input and output to a listener of a running agent.",
        discussion: """
            The listener has an endpoint that begins with unix:. WHERE is its name in the configuration, or the path of its socket; absent: the \
            only such listener of the configuration. A replicator elsewhere speaks through this command: \
            `target: "exec:ssh hub nightjar pipe /run/nightjar/hub.sock"`. For the listener the peer is the user that runs this command.
            """)

    @Option(name: .long, help: ArgumentHelp("The agent's configuration file.", valueName: "file"), completion: .file()) var config: String?
    @Argument(help: ArgumentHelp("A listener's name, or the path of a socket.", valueName: "where")) var place: String?

    func run() async throws {
        try await Failure.reporting {
            let path = try socketPath()
            let descriptor = try LocalSocket.connect(path)
            defer { close(descriptor) }
            // Both directions in one thread: this process does nothing else.
            try Relay(socket: descriptor, path: path).run()
        }
    }

    private func socketPath() throws -> String {
        if let place, place.contains("/") { return place.hasPrefix("unix:") ? String(place.dropFirst(5)) : place }
        guard let config else {
            throw AgentError(.invalid, "name the path of a socket, or the configuration of the agent with --config")
        }
        let listeners = try AgentSettings.load(path: config).listeners.filter { $0.endpoint?.value.scheme == .unix }
        let found = listeners.filter { listener in place.map { listener.name.value.utf8.elementsEqual($0.utf8) } ?? true }
        guard let listener = found.first, found.count == 1, let endpoint = listener.endpoint?.value else {
            let names = listeners.map(\.name.value)
            throw AgentError(
                .notFound,
                (place.map { "\(config) has no listener \"\($0)\" with an endpoint unix:" } ?? "which listener is meant?")
                    + (names.isEmpty ? "; it has none at all" : "; there is \(names.joined(separator: ", "))"))
        }
        return endpoint.path
    }
}

/// Copies bytes between standard input and output and a socket until one side ends.
private struct Relay {
    let socket: CInt
    let path: String

    func run() throws {
        signal(SIGPIPE, SIG_IGN)
        while true {
            var ready = [pollfd(fd: socket, events: Int16(POLLIN), revents: 0), pollfd(fd: 0, events: Int16(POLLIN), revents: 0)]
            guard poll(&ready, 2, -1) >= 0 else {
                if errno == EINTR { continue }
                throw AgentError(.failed, "poll: \(String(cString: strerror(errno)))")
            }
            if ready[0].revents != 0, !copy(from: socket, to: 1) { return }
            // Nobody is left to receive what the agent still has to say.
            if ready[1].revents != 0, !copy(from: 0, to: socket) { return }
        }
    }

    /// Returns false at the end.
    private func copy(from source: CInt, to sink: CInt) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = read(source, &buffer, buffer.count)
        if count < 0, errno == EINTR || errno == EAGAIN { return true }
        guard count > 0 else { return false }
        var sent = 0
        while sent < count {
            let written = buffer.withUnsafeBytes { write(sink, $0.baseAddress.map { $0 + sent }, count - sent) }
            if written < 0, errno == EINTR { continue }
            if written < 0, errno == EAGAIN {
                var wait = pollfd(fd: sink, events: Int16(POLLOUT), revents: 0)
                _ = poll(&wait, 1, -1)
                continue
            }
            guard written > 0 else { return false }
            sent += written
        }
        return true
    }
}
