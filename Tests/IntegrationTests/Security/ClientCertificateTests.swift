import Documents
import TestSupport
import Testing

/// Peers that show who they are with certificates, between real agents.
@Suite("Client certificates of real agents")
struct ClientCertificateTests {
    /// What the fleet's own plugin grants.
    private let fleet = """
        return {
          authenticate_certificate = function(chain, ctx)
            local name = chain[1].common_name
            if name == "broken" then error("no list") end
            if name == "plant-7" then return { name = name, collections = { "plant.readings" } } end
            if name == "kiosk-1" then return { name = "kiosk of " .. ctx.listener, channels = { "red" } } end
            return false
          end,
          sync = function(doc) channel(doc.team) end,
        }
        """
    private let acceptsAny = "accept_only_self_signed_server_certificate: true"

    private func shows(_ certificates: Certificates, _ name: String) -> String { "\(acceptsAny), authenticator: { identity: \(certificates.identity(name)) }" }

    @Test("a listener's authorities decide in the handshake, and the peer's name is in status")
    func roots() async throws {
        let certificates = try await Certificates()
        let roots = "roots: [ \(certificates.path("root.pem")) ]"
        let folder = try TemporaryFolder()
        // A device with a self-signed identity of its own key store, which the hub knows by its certificate.
        let device = try TemporaryFolder()
        try device.write("nightjar.yaml", Configuration.secureEdge([("x", "wss://127.0.0.1:1/main", "")]))
        for arguments in [["create", "device"], ["show", "device", "--pem"]] {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), ["identity"] + arguments + ["--config", device.path("nightjar.yaml")], folder: device.path)
            #expect(outcome.status == 0, "\(outcome)")
            try folder.write("device.pem", outcome.output)
        }
        let hub = try await AgentProcess.start(
            Configuration.secureHub([
                ("requires", "client_certificates: require, \(roots)"), ("requests", "client_certificates: request, \(roots)"),
                ("device", "client_certificates: require, roots: [ device.pem ]"),
            ]), in: folder)
        let (requires, requests) = (try hub.target("requires"), try hub.target("requests"))
        let edge = try await AgentProcess.start(
            Configuration.secureEdge([
                ("known", requires, shows(certificates, "plant-7")), ("bare", requires, acceptsAny), ("foreign", requires, shows(certificates, "intruder")),
                ("asked", requests, shows(certificates, "kiosk-1")), ("asked-bare", requests, acceptsAny),
                ("asked-foreign", requests, shows(certificates, "intruder")),
                ("own", try hub.target("device"), "\(acceptsAny), authenticator: { identity: device }"),
                ("own-foreign", try hub.target("device"), shows(certificates, "plant-7")),
            ]), in: device)
        for name in ["known", "asked", "asked-bare", "own"] { try await edge.connects(name) }
        for (listener, users) in [("requires", ["plant-7"]), ("requests", ["", "kiosk-1"]), ("device", ["device"])] {
            let peers = try await hub.listener(listener)["peers"]?.asArray ?? []
            #expect(peers.map { $0["user"]?.asString ?? "" }.sorted() == users, "\(listener): \(peers.map(\.text))")
            for peer in peers {
                #expect(peer["tls"]?.asString?.contains("TLSv1.3") == true)
                #expect(peer["certificate"]?["common_name"]?.asString == peer["user"]?.asString, "\(peer.text)")
            }
        }
        #expect(try await edge.replicator("known")["tls"]?["identity"]?["subject"]?.asString == "CN=plant-7")
        for (name, code, words) in [
            ("bare", 5009, "set authenticator: { identity: LABEL }"), ("foreign", 5010, "refused our client certificate"),
            ("asked-foreign", 5010, "refused our client certificate"), ("own-foreign", 5010, "refused our client certificate"),
        ] as [(String, Int64, String)] {
            let error = try await edge.refusal(name)
            #expect(error["domain"]?.asString == "tls" && error["public_code"]?.asInt64 == code && error["transient"]?.asBool == false, "\(name): \(error.text)")
            #expect(error["message"]?.asString?.contains(words) == true, "\(name): \(error.text)")
        }
        // The hub's operator learns of it too.
        _ = try await hub.process.line(containing: "the client presented no certificate", in: .errors)
        _ = try await hub.process.line(containing: "CN=intruder", in: .errors)
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("peers that no authority vouches for any more are disconnected, the others stay")
    func rootsChange() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        let (root, stranger) = (try certificates.folder.read("root.pem"), try certificates.folder.read("stranger.pem"))
        try folder.write("roots.pem", bytes: root + stranger)
        let hub = try await AgentProcess.start(
            Configuration.secureHub([("both", "client_certificates: require, roots: [ roots.pem ]")]), in: folder)
        func connect(_ name: String) async throws -> SecureWebSocket {
            try await SecureWebSocket(hub, "both", arguments: ["-cert", certificates.path("\(name).pem"), "-key", certificates.path("\(name).key")])
        }
        let (plant, intruder) = (try await connect("plant-7"), try await connect("intruder"))
        try folder.write("roots.pem", bytes: root)
        // It is noticed without being told; a reload does it at once.
        #expect(try await hub.command("reload").status == 0)
        #expect(try await intruder.closeCode() == 4001)
        try await eventually("one is left") { try await hub.listener("both")["peers"]?.asArray?.map { $0["user"]?.asString } == ["plant-7"] }
        #expect(plant.process.isRunning)
        #expect(try await hub.stop().status == 0)
    }

    @Test("certificate-names lets in listed names, and those that may only read push nothing")
    func names() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        try folder.copy("\(NightjarExecutable.package())/plugins/certificate-names.lua", to: "plugins/certificate-names.lua")
        try folder.write("plugins/fleet.lua", fleet)
        let names = "authenticator: { plugin: certificate-names, params: { names: [ \"plant-*\", \"kiosk-*\" ], read_only: [ \"CN:kiosk-*\" ] } }"
        let hub = try await AgentProcess.start(
            Configuration.secureHub([
                ("names", "client_certificates: require, roots: [ \(certificates.path("root.pem")) ], \(names)"),
                // Only the plugin decides here, whoever signed the certificate.
                ("open", "client_certificates: request, \(names)"), ("asks", "client_certificates: request, authenticator: fleet"),
            ], plugins: true), in: folder)
        try await hub.save("from-hub", "{\"team\":\"red\"}")
        let edge = try await AgentProcess.start(Configuration.secureEdge([
            ("kiosk", try hub.target("names"), shows(certificates, "kiosk-1")), ("foreign", try hub.target("names"), shows(certificates, "intruder")),
            ("unlisted", try hub.target("open"), shows(certificates, "intruder")), ("bare", try hub.target("open"), acceptsAny),
            ("denied", try hub.target("asks"), shows(certificates, "intruder")),
        ]))
        try await edge.connects("kiosk")
        #expect(try await hub.listener("names")["peers"]?.asArray?.map { $0["user"]?.asString } == ["kiosk-1"])
        try await edge.save("from-kiosk", "{}")
        try await edge.waits("the push waits", replicator: "kiosk") { $0["push_refused"]?["code"]?.asInt64 == 403 }
        try await hub.save("later", "{}")
        try await eventually("the pull goes on") { try await edge.has("later") }
        #expect(try await edge.has("from-hub"))
        #expect(try await !hub.has("from-kiosk"))
        #expect(try await edge.refusal("foreign")["public_code"]?.asInt64 == 5010)
        for (name, words) in [("unlisted", "this client certificate is not accepted"), ("bare", "a client certificate is needed"), ("denied", "not accepted")] {
            let error = try await edge.refusal(name)
            #expect(error["public_code"]?.asInt64 == 10401 && error["transient"]?.asBool == false, "\(name): \(error.text)")
            #expect(error["message"]?.asString?.contains(words) == true, "\(name): \(error.text)")
        }
        // A user who may write does.
        let writer = try await AgentProcess.start(Configuration.secureEdge([("writer", try hub.target("names"), shows(certificates, "plant-7"))]))
        try await writer.save("from-plant", "{}")
        try await eventually("the document arrives") { try await hub.has("from-plant") }
        for agent in [edge, writer, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("a plugin narrows a certificate's holder to collections and channels")
    func narrowed() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        try folder.write("plugins/fleet.lua", fleet)
        let database = "{ collections: [ plant.readings, plant.secrets ] }"
        let hub = try await AgentProcess.start(
            Configuration.secureHub(
                [("fleet", "client_certificates: require, roots: [ \(certificates.path("root.pem")) ], authenticator: fleet, sync: fleet")],
                database: database, plugins: true), in: folder)
        try await hub.save("red-1", "{\"team\":\"red\"}")
        try await hub.save("blue-1", "{\"team\":\"blue\"}")
        let target = try hub.target("fleet")
        let edge = try await AgentProcess.start(
            Configuration.secureEdge([
                ("kiosk", target, shows(certificates, "kiosk-1")),
                ("readings", target, "\(shows(certificates, "plant-7")), collections: { plant.readings: {} }"),
                ("secrets", target, "\(shows(certificates, "plant-7")), collections: { plant.secrets: {} }"),
            ], database: database))
        try await edge.connects("readings")
        let error = try await edge.refusal("secrets")
        #expect(error["message"]?.asString?.contains("plant.secrets") == true, "\(error.text)")
        try await edge.connects("kiosk")
        try await eventually("its channel is here") { try await edge.has("red-1") }
        // Sent after what the peer may not have.
        try await hub.save("red-2", "{\"team\":\"red\"}")
        try await eventually("its channel goes on") { try await edge.has("red-2") }
        #expect(try await !edge.has("blue-1"))
        let users = try await hub.listener("fleet")["peers"]?.asArray?.compactMap { $0["user"]?.asString } ?? []
        #expect(Set(users) == ["plant-7", "kiosk of fleet"], "\(users)")
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }
}
