import Documents
import Glibc
import Synchronization
import TestSupport
import Testing

/// A CouchDB whose answers a test makes, one connection for each request.
private final class MadeServer: Sendable {
    let port: Int
    private let descriptor: Int32
    private let isOver = Mutex(false)

    /// - Parameter answer: the body of the answer to a request such as `GET /db/_changes`, with its status.
    init(_ answer: @escaping @Sendable (_ request: String) -> (Int, String)) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let failure = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { plain in
                bind(descriptor, plain, length) != 0 || listen(descriptor, 64) != 0 || getsockname(descriptor, plain, &length) != 0
            }
        }
        guard !failure else { throw SupportError("no server socket: \(String(cString: strerror(errno)))") }
        port = Int(UInt16(bigEndian: address.sin_port))
        Task.detached { [self] in
            try await offThread {
                while true {
                    let client = accept(descriptor, nil, nil)
                    guard client >= 0, !self.isOver.withLock({ $0 }) else { return }
                    Self.serve(client, answer)
                }
            }
        }
    }

    /// No further client is served.
    func stop() {
        isOver.withLock { $0 = true }
        shutdown(descriptor, Int32(SHUT_RDWR))
        close(descriptor)
    }

    private static func serve(_ client: Int32, _ answer: (String) -> (Int, String)) {
        defer { close(client) }
        var request: [UInt8] = []
        var bytes = [UInt8](repeating: 0, count: 4096)
        while true {
            if let head = String(decoding: request, as: UTF8.self).firstRange(of: "\r\n\r\n") {
                let text = String(decoding: request, as: UTF8.self)
                let length = text.lowercased().firstMatch(of: /content-length: ([0-9]+)/).flatMap { Int($0.1) } ?? 0
                if text[head.upperBound...].utf8.count >= length { break }
            }
            let count = read(client, &bytes, bytes.count)
            guard count > 0 else { return }
            request += bytes[..<count]
        }
        let line = String(decoding: request, as: UTF8.self).split(separator: " ").prefix(2).joined(separator: " ")
        let (status, body) = answer(String(line.prefix { $0 != "?" }))
        let text = "HTTP/1.1 \(status) X\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)"
        _ = text.withCString { write(client, $0, strlen($0)) }
    }
}

@Suite("Documents of a CouchDB that cannot be stored here")
struct NotTakenTests {
    private static let long = String(repeating: "L", count: 241)

    private static func server() throws -> MadeServer {
        let rows = [("fine", "1-aa"), ("odd", "1-xyz"), (long, "1-bb"), ("_own", "1-cc"), ("bell\\u0007", "1-dd")].enumerated().map { index, row in
            "{\"seq\":\"\(index + 1)-x\",\"id\":\"\(row.0)\",\"changes\":[{\"rev\":\"\(row.1)\"}]}"
        }
        return try MadeServer { request in
            if request.hasPrefix("PUT /db/_local/") { return (201, "{\"ok\":true,\"rev\":\"0-1\"}") }
            switch request {
            case "GET /db", "GET /db/": return (200, "{\"db_name\":\"db\",\"update_seq\":\"5-x\"}")
            case "GET /db/_changes": return (200, "{\"results\":[\(rows.joined(separator: ","))],\"last_seq\":\"5-x\",\"pending\":0}")
            case "POST /db/_bulk_get":
                let found = "{\"_id\":\"fine\",\"_rev\":\"1-aa\",\"_revisions\":{\"start\":1,\"ids\":[\"aa\"]},\"n\":1}"
                return (200, "{\"results\":[{\"id\":\"fine\",\"docs\":[{\"ok\":\(found)}]}]}")
            case "POST /db/_ensure_full_commit": return (201, "{\"ok\":true}")
            default: return (404, "{\"error\":\"not_found\",\"reason\":\"missing\"}")
            }
        }
    }

    private func attention(_ agent: AgentProcess) async throws -> JSONValue? {
        try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"]?.asString == "documents_not_taken" }
    }

    /// What the agent says about them by every way that an operator looks.
    private func areListed(by agent: AgentProcess) async throws {
        let told = try #require(try await attention(agent))
        #expect(told["subject"] == "replicator hub, refused" && told["gravity"] == "attention", "\(told.text)")
        #expect(told["text"]?.asString?.contains("4 documents of the remote cannot be stored here, such as document ") == true, "\(told.text)")
        #expect(told["remedy"]?.asString?.contains("nightjar replicator hub refused") == true, "\(told.text)")
        #expect(try await agent.replicator("hub")["not_taken"]?.asInt64 == 4)
        let list = try #require(try await agent.command("replicator", "hub", "refused", "--json").json.asArray)
        #expect(Set(list.compactMap { $0["id"]?.asString }) == ["odd", Self.long, "_own", "bell\\u0007"], "\(list)")
        #expect(list.allSatisfy { $0["direction"] == "pull" && $0["reason"]?.asString?.isEmpty == false && $0["since"]?.asString != nil }, "\(list)")
        for (id, word) in [("odd", "1-xyz"), (Self.long, "241 bytes"), ("_own", "reserved"), ("bell\u{7}", "control character")] {
            let why = try await agent.command("doc", "why", "main", id)
            #expect(why.status == 0 && why.output.contains("refused_here: ") && why.output.contains(word), "\(why)")
        }
        // An id that nobody has heard of is still none.
        #expect(try await agent.command("doc", "why", "main", "_other").errors.contains("reserved"))
    }

    @Test("documents that cannot be stored are named with their reasons, in health, on a list and by doc why, even after a restart and while the remote is away")
    func named() async throws {
        let (server, folder) = (try Self.server(), try TemporaryFolder())
        let configuration = Configuration.plain + "replicators:\n"
            + Configuration.replicator("hub", to: "http://127.0.0.1:\(server.port)/db", more: "type: pull")
        let first = try await AgentProcess.start(configuration, in: folder)
        try await eventually("what can be stored is here") { try await first.get("main", "fine").status == 200 }
        try await eventually("the others are listed") { try await first.replicator("hub")["not_taken"]?.asInt64 == 4 }
        try await areListed(by: first)
        #expect(try await first.stop().status == 0)
        server.stop()
        let second = try await AgentProcess.start(configuration, in: folder)
        try await areListed(by: second)
        #expect(try await second.stop().status == 0)
    }
}
