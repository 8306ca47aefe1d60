import Glibc
import Synchronization

/// Listens to an agent's event stream, `GET /api/events`, until it is released.
package final class EventProbe: Sendable {
    private final class Heard: Sendable {
        let text = Mutex("")
        let isOver = Mutex(false)
    }

    private let heard = Heard()

    /// Returns when the stream has begun. That takes an agent with a replicator, because the stream begins with the status of replicators.
    ///
    /// - Parameters:
    ///   - query: the query of the request, with its question mark.
    ///   - header: a further header of the request.
    package init(_ agent: AgentProcess, query: String = "", header: String? = nil) async throws {
        let address = agent.admin.address
        let heard = heard
        Task.detached {
            try? await offThread {
                let socket = try Socket(address)
                try socket.send(Array("GET /api/events\(query) HTTP/1.1\r\nHost: localhost\r\n\(header.map { $0 + "\r\n" } ?? "")\r\n".utf8))
                while !heard.isOver.withLock({ $0 }) {
                    let part = try socket.receive()
                    if part.isEmpty { return }
                    heard.text.withLock { $0 += String(decoding: part, as: UTF8.self) }
                }
            }
        }
        try await wait("the event stream begins") { $0.contains("event: status") }
    }

    deinit { heard.isOver.withLock { $0 = true } }

    /// Everything heard so far.
    package var text: String { heard.text.withLock { $0 } }

    /// Waits until what was heard meets a condition.
    package func wait(_ what: String, _ holds: @escaping @Sendable (String) -> Bool) async throws {
        do {
            try await eventually(what) { holds(self.text) }
        } catch {
            throw SupportError("\(error); heard: \(text)")
        }
    }
}
