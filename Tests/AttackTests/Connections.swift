import Encodings
import TestSupport
import Testing

/// What connections are made to.
enum Door: String, CaseIterable, Sendable {
    case listener = "the listener"
    case adminPort = "the admin port"
    case adminSocket = "the admin socket"

    func probe(_ hub: AgentProcess) throws -> HTTPProbe {
        switch self {
        case .listener: .tcp(port: try hub.port("edge"))
        case .adminPort: .tcp(port: try hub.port("admin"))
        case .adminSocket: .unix(hub.folder.path("data/admin.sock"))
        }
    }
}

extension Attack {
    /// Connections that are refused, or on which the client sends little.
    static let connections: [Attack] = halfOpen + unfinishedBodies + [refused, many, guesses, foreignPages]

    private static let halfOpen = Door.allCases.map { door in
        Attack(testDescription: "1,000 headers that never end, at \(door.rawValue)", bounds: Bounds(perRequest: 2)) { hub in
            let probe = try door.probe(hub)
            let head = Array("GET /api/status HTTP/1.1\r\nHost: localhost\r\nX-Long: \(String(repeating: "x", count: 8_000))".utf8)
            var sent = Sent(requests: 1_000)
            for _ in 0..<1_000 { sent.flows.append(try await probe.pour(head)) }
            return sent
        } check: { hub in
            let descriptors = try Meter.descriptors(of: hub)
            #expect(descriptors <= 600)
        }
    }

    private static let unfinishedBodies = Door.allCases.map { door in
        // Allows for the budget of 64 MiB in buffers that grow in powers of two, one that is just growing, and what the allocator keeps.
        Attack(testDescription: "12 unfinished PUTs of 19 MB, at \(door.rawValue)", bounds: Bounds(memory: 160 << 20)) { hub in
            let probe = try door.probe(hub)
            let head = "PUT /api/databases/main/documents/unfinished HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(19 << 20)\r\n\r\n"
            let bytes = Array(head.utf8) + [UInt8](repeating: 0x20, count: 18 << 20)
            var sent = Sent(requests: 12)
            for _ in 0..<12 { sent.flows.append(try await probe.pour(bytes)) }
            return sent
        }
    }

    /// The log does not get a line for each: repeated lines are folded into one.
    private static let refused = Attack(
        testDescription: "2,000 connections that a limit refuses", bounds: Bounds(perRequest: 1), listener: "max_connections_per_address: 2"
    ) { hub in
        let probe = try Door.listener.probe(hub)
        for _ in 0..<2_000 { _ = try await probe.pour(Array("GET".utf8)) }
        return Sent(requests: 2_000)
    } end: { outcome in
        let lines = outcome.errors.split(separator: "\n")
        #expect(lines.count < 150, "\(lines.count) lines")
    }

    private static let many = Attack(
        testDescription: "400 peers from one address", bounds: Bounds(perRequest: 5), listener: "max_connections_per_address: 40"
    ) { hub in
        var sent = Sent(requests: 400)
        for _ in 0..<400 {
            if let socket = try? await WebSocketProbe.connect(port: try hub.port("edge"), path: "/main/_blipsync") { sent.held.append(socket) }
        }
        let held = sent.held.count
        #expect(held <= 40, "\(held) of 400 were let in")
        return sent
    }

    private static let guesses = Attack(
        testDescription: "300 wrong logins at once", bounds: Bounds(milliseconds: 6_000, perRequest: 10, memory: 96 << 20),
        listener: "authenticator: { plugin: password-file, params: { file: users.txt } }",
        furnish: { folder in
            try folder.copy("\(NightjarExecutable.package())/plugins/password-file.lua", to: "plugins/password-file.lua")
            let made = try await NightjarExecutable.run("password", folder: folder.path, input: .text("secret\n"))
            try folder.write("users.txt", "ada:\(made.output)victim:\(made.output)")
        },
        login: ("ada", "secret")
    ) { hub in
        let statuses = await withTaskGroup(of: Int.self) { tasks in
            for number in 0..<300 {
                tasks.addTask {
                    let login = Base64.encode(Array("victim:\(number)".utf8))
                    do {
                        _ = try await WebSocketProbe.connect(port: try hub.port("edge"), path: "/main/_blipsync", headers: [("Authorization", "Basic \(login)")])
                        return 101
                    } catch let refused as WebSocketProbe.Refused { return refused.answer.status } catch { return 0 }
                }
            }
            return await tasks.reduce(into: Set<Int>()) { $0.insert($1) }
        }
        #expect(statuses.isSubset(of: [0, 401, 429, 503]), "\(statuses)")
        return Sent(requests: 300)
    }

    /// What a foreign web page in a browser on this machine could send; all of it is refused.
    private static let foreignPages = Attack(testDescription: "requests from a foreign web page to the admin port", bounds: Bounds(perRequest: 10)) { hub in
        let probe = try Door.adminPort.probe(hub)
        let port = try hub.port("admin")
        let headers = ["Host: evil.example", "Host: evil.example:\(port)", "Host: localhost:\(port)\r\nOrigin: http://evil.example", "Host: localhost:\(port)\r\nOrigin: null"]
        let requests = [
            "GET /api/databases/main/export", "POST /api/databases/main/import", "PUT /api/databases/main/documents/planted", "POST /api/reload", "GET /api/status",
            "GET /metrics", "GET /api/events",
        ]
        var sent = Sent(requests: 0)
        for _ in 0..<4 {
            for header in headers {
                for request in requests {
                    let body = "{\"_id\":\"planted\"}\n"
                    let text = "\(request) HTTP/1.1\r\n\(header)\r\nContent-Type: text/plain\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)"
                    let answer = try HTTPProbe.parse(try await probe.raw(Array(text.utf8)))
                    #expect(answer.status == 403, "\(request), \(header): \(answer)")
                    sent.requests += 1
                    sent.bytes += text.utf8.count
                }
            }
        }
        return sent
    } check: { hub in
        let planted = try await hub.get("main", "planted")
        #expect(planted.status == 404)
    }
}
