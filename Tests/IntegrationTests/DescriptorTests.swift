import Digests
import Documents
import Encodings
import TestSupport
import Testing

@Suite("File descriptors are shared out")
struct DescriptorTests {
    @Test("peers cannot take the descriptors that the store and the admin API need")
    func reserve() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(), descriptors: "-n 160")
        let status = try await hub.status()
        #expect(status["descriptors"]?["limit"]?.asInt64 == 160, "\(status["descriptors"]?.text ?? "")")
        let most = try await hub.listener("edge")["max_connections"]?.asInt64 ?? 0
        #expect((1..<160).contains(most), "\(most)")
        let probe = HTTPProbe.tcp(port: try hub.port("edge"))
        var held: [HeldConnection] = []
        for _ in 0..<300 { held.append(try await probe.begin(Array("GET /main".utf8))) }
        // Every one of these opens sockets and files.
        try await hub.save("in-between", "{}")
        try await hub.load("more", 200)
        #expect(try await hub.admin.get("/health").status == 200)
        let open = try await hub.status()["descriptors"]?["open"]?.asInt64 ?? 0
        #expect(open < 160, "\(open)")
        let bystander = try await Bystander(hub)
        try await bystander.leave()
        #expect(!held.isEmpty)
        let end = try await hub.stop()
        #expect(end.status == 0 && !end.errors.contains("Too many open files"), "\(end)")
        #expect(end.errors.contains("RLIMIT_NOFILE"))
    }

    /// A final answer would cost the peer its edit. The limit is set so low that no file or socket can be opened any more; the database's are open.
    @Test("a document for whose blob there is no descriptor, or no folder, gets 503 and is stored when it is sent again; others are stored in the meantime")
    func noneLeft() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let peer = try await Peer.connect(hub)
        let (photo, sound) = ("the bytes of a photo", "the bytes of a sound")
        func offer(_ id: String, _ blob: String) async throws -> Int? {
            let digest = "sha1-\(Base64.encode(SHA1.hash(Array(blob.utf8))))"
            return try await peer.push(id, digest: digest, length: blob.utf8.count) { $0 == "getAttachment" ? blob : nil }.error?.code
        }
        let before = try #require(try await hub.status()["descriptors"]?["limit"]?.asInt64)
        try await limitDescriptors(of: hub, to: 4)
        #expect(try await offer("photo", photo) == 503)
        try await peer.push("plain")
        // It waits for a descriptor, too, and is not lost.
        let late = try await HTTPProbe.tcp(port: try hub.port("edge")).begin(Array("GET /main".utf8))
        try await peer.push("other")
        try await limitDescriptors(of: hub, to: before)

        try hub.folder.rename("data/main.nightjar/blobs", to: "away")
        #expect(try await offer("sound", sound) == 503)
        try hub.folder.rename("away", to: "data/main.nightjar/blobs")
        #expect(try await hub.documents("main") == 2)
        for (id, blob) in [("photo", photo), ("sound", sound)] { #expect(try await offer(id, blob) == nil) }
        #expect(try await hub.documents("main") == 4)
        let next = try await Peer.connect(hub)
        try await next.push("later")
        withExtendedLifetime(late) {}
        #expect(try await hub.stop().status == 0)
    }

    private func limitDescriptors(of agent: AgentProcess, to number: Int64) async throws {
        // Of util-linux; only the soft limit.
        let outcome = try await Subprocess.run("/usr/bin/prlimit", ["--pid", "\(agent.process.pid)", "--nofile=\(number):"])
        try #require(outcome.status == 0, "\(outcome)")
    }

    @Test("blobs that peers begin and never end take no more descriptors than are kept for blobs, and give way to those that get on")
    func unfinishedBlobs() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(), descriptors: "-n 160")
        let kept = try await hub.status()["descriptors"]?["max_open_blobs"]?.asInt64 ?? 0
        #expect((4..<40).contains(kept), "\(kept)")
        let honest = try await Peer.connect(hub)
        var held: [Outflow] = []
        for number in 0..<25 {
            var frames = HandmadeFrames()
            var bytes: [UInt8] = []
            for document in 0..<10 {
                let id = "never-\(number)-\(document)"
                let properties = HandmadeFrames.properties(("Profile", "rev"), ("id", id), ("rev", "1-aa"), ("sequence", "\(document + 1)"))
                let digest = Base64.encode(SHA1.hash(Array(id.utf8)))
                let body = "{\"file\":{\"@type\":\"blob\",\"digest\":\"sha1-\(digest)\",\"length\":1000}}"
                bytes += WebSocketFrame.binary(frames.request(properties: properties, body: Array(body.utf8)))
            }
            held.append(try await WebSocketProbe.connect(port: try hub.port("edge"), path: "/main/_blipsync").pour(bytes))
        }
        try await eventually("the places are taken") { try await hub.status()["descriptors"]?["open_blobs"]?.asInt64 == kept }
        let open = try await hub.status()["descriptors"]?["open"]?.asInt64 ?? 0
        #expect(open < 160, "\(open)")
        try await hub.save("in-between", "{}")
        try await eventually("a blob that is sent finds a place") {
            let blob = "this one comes at once"
            let digest = "sha1-\(Base64.encode(SHA1.hash(Array(blob.utf8))))"
            let error = try await honest.push("honest", digest: digest, length: blob.utf8.count) { $0 == "getAttachment" ? blob : nil }.error
            #expect(error == nil || error?.code == 503, "\(String(describing: error))")
            return error == nil
        }
        withExtendedLifetime(held) {}
        let end = try await hub.stop()
        #expect(end.status == 0 && !end.errors.contains("Too many open files"), "\(end)")
    }

    @Test("the limit is raised as far as the system allows")
    func raised() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(), descriptors: "-S -n 100 && ulimit -H -n 2000")
        #expect(try await hub.status()["descriptors"]?["limit"]?.asInt64 == 2000)
        #expect(try await hub.listener("edge")["max_connections"]?.asInt64 == 1000)
        #expect(try await hub.stop().status == 0)
    }
}
