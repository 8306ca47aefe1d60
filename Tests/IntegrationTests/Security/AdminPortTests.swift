import Glibc
import TestSupport
import Testing

/// What strangers can do to the TCP side of the admin API.
@Suite("The admin port", .serialized, .agent("data: data\nadmin: { port: 0, open: true }\nlisteners: []\ndatabases: { main: {} }\n"))
struct AdminPortTests {
    private func answer(_ request: String, _ headers: [String]) async throws -> HTTPProbe.Answer {
        let probe = HTTPProbe.tcp(port: try sharedAgent().port("admin"))
        let lines = headers.map { "\($0)\r\n" }.joined()
        return try HTTPProbe.parse(try await probe.raw(Array("\(request) HTTP/1.1\r\n\(lines)Connection: close\r\n\r\n".utf8)))
    }

    @Test("it is reached by names of this machine only", arguments: ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]", "[::1]:4985", "localhost:PORT"])
    func ownNames(_ host: String) async throws {
        let port = try sharedAgent().port("admin")
        #expect(try await answer("GET /api/status", ["Host: \(host.replacing("PORT", with: "\(port)"))"]).status == 200)
    }

    @Test("the ready line has an IPv6 address in brackets, as it is typed", .enabled(if: access("/proc/net/if_inet6", F_OK) == 0))
    func addressInBrackets() async throws {
        let agent = try await AgentProcess.start("data: data\nadmin: { address: '::1', port: 0, open: true }\nlisteners: []\ndatabases: { main: {} }\n")
        let port = try agent.port("admin")
        #expect(agent.ready.contains("admin=[::1]:\(port)"), "\(agent.ready)")
        #expect(try await agent.stop().status == 0)
    }

    @Test("a request by another name is 403, so that no page can let a name of its own point here", arguments: [
        "evil.example", "evil.example:4985", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.1", "[::2]", "", "[", "[::1", "localhos",
    ])
    func otherNames(_ host: String) async throws {
        for path in ["/api/status", "/health", "/nothing"] {
            let answer = try await answer("GET \(path)", ["Host: \(host)"])
            #expect(answer.status == 403, "\(host): \(answer)")
            #expect(try answer.json["reason"]?.asString?.contains("is not at") == true)
        }
    }

    @Test("a page of another origin is 403, its own is served", arguments: [
        ("http://evil.example", 403), ("null", 403), ("https://localhost:PORT", 403), ("http://localhost", 403), ("http://localhost:1", 403), ("", 403),
        ("http://localhost:PORT", 200), ("HTTP://localhost:PORT", 200),
    ])
    func origins(_ origin: String, _ status: Int) async throws {
        let port = "\(try sharedAgent().port("admin"))"
        let answer = try await answer(
            "POST /api/conflicts/retry", ["Host: localhost:\(port)", "Content-Length: 0", "Origin: \(origin.replacing("PORT", with: port))"])
        #expect(answer.status == (status == 200 ? 202 : status), "\(answer)")
        if status == 403 { #expect(answer.text.contains("Origin")) }
    }

    @Test("a request from a page of another site without Origin, as for an image, is 403", arguments: [
        ("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200),
    ])
    func otherSites(_ site: String, _ status: Int) async throws {
        let port = "\(try sharedAgent().port("admin"))"
        #expect(try await answer("GET /api/status", ["Host: localhost:\(port)", "Sec-Fetch-Site: \(site)"]).status == status)
    }

    @Test("a request without Host is 400, and the local socket takes any")
    func noHost() async throws {
        #expect(try await answer("GET /api/status", []).status == 400)
        for (host, status) in [("", 400), ("Host: anything\r\n", 200)] {
            let local = try await sharedAgent().admin.raw(Array("GET /api/status HTTP/1.1\r\n\(host)Origin: x\r\nConnection: close\r\n\r\n".utf8))
            #expect(try HTTPProbe.parse(local).status == status)
        }
    }

    @Test("3,000 headers that never end hold no more places than max_handshakes, and others are served all the time")
    func halfOpenHeaders() async throws {
        let agent = try sharedAgent()
        let probe = HTTPProbe.tcp(port: try agent.port("admin"))
        let before = try Memory(of: agent)
        let descriptors = try Memory.descriptors(of: agent)
        var held: [HeldConnection] = []
        for n in 0..<3_000 {
            held.append(try await probe.begin(Array("GET /api/status HTTP/1.1\r\nHost: localhost\r\nX-Long: \(String(repeating: "x", count: 8_000))".utf8)))
            if n % 100 == 99 {
                #expect(try await probe.request("PUT", "/api/databases/main/documents/beside-\(n)", body: Array("{}".utf8)).status == 201)
                #expect(try Memory.descriptors(of: agent) - descriptors <= 140)
            }
        }
        #expect(try Memory(of: agent).peak - before.resident < 48 << 20)
        // One that was let in late can still finish; the others are forgotten.
        #expect(try await probe.get("/health").status == 200)
        held.removeAll()
    }

    @Test("a gigabyte of bodies that never end stays within limits.memory, and others are served all the time")
    func unfinishedBodies() async throws {
        let agent = try sharedAgent()
        let probe = HTTPProbe.tcp(port: try agent.port("admin"))
        let before = try Memory(of: agent)
        let body = [UInt8](repeating: UInt8(ascii: " "), count: 18 << 20)
        var held: [HeldConnection] = []
        for n in 0..<57 {
            let head = "PUT /api/databases/main/documents/unfinished-\(n) HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(19 << 20)\r\n\r\n"
            held.append(try await probe.begin(Array(head.utf8) + body))
            #expect(try await probe.request("PUT", "/api/databases/main/documents/served-\(n)", body: Array("{}".utf8)).status == 201)
        }
        // The budget of 64 MiB in buffers that grow in powers of two, one that grows at that moment, and what the allocator keeps.
        #expect(try Memory(of: agent).peak - before.resident < 256 << 20)
        _ = try await agent.process.line(containing: "limits.memory", in: .errors)
        held.removeAll()
    }
}

/// Bytes of an agent's process that are in memory, now and at most.
private struct Memory {
    var resident: Int
    var peak: Int

    init(of agent: AgentProcess) throws {
        let text = String(decoding: try TemporaryFolder.bytes(of: "/proc/\(agent.process.pid)/status"), as: UTF8.self)
        func kilobytes(_ name: String) -> Int {
            let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
            return line.flatMap { Int($0.split(separator: " ").dropFirst().first ?? "") } ?? 0
        }
        resident = kilobytes("VmRSS:") << 10
        peak = kilobytes("VmHWM:") << 10
    }

    static func descriptors(of agent: AgentProcess) throws -> Int {
        guard let folder = opendir("/proc/\(agent.process.pid)/fd") else { throw SupportError("the agent is gone") }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        return count
    }
}
