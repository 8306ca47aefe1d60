import AgentConfiguration
import Glibc
import Testing

@Suite("The sample of the reference")
struct SampleTests {
    @Test func readsEverySetting() throws {
        let settings = try settings(sample, environment: sampleEnvironment)
        #expect(settings.data.value == "/var/lib/nightjar")
        #expect(settings.plugins?.value == "/etc/nightjar/plugins")
        #expect(settings.admin?.address.value == "127.0.0.1")
        #expect(settings.admin?.port.value == 4985)
        #expect(settings.log.level(of: .replicator) == .debug)
        #expect(settings.log.level(of: .http) == .info)

        let database = try #require(settings.database(named: "sensors"))
        #expect(database.collections.map(\.value.description) == ["_default._default", "plant.readings"])
        #expect(database.deltaSync.enabled && database.deltaSync.maxAgeSeconds == 86_400)
        #expect(database.conflictResolver?.plugin.value == "merge-fields")
        #expect(database.history.revisions == 50 && database.history.conflicts == 1000)

        let listener = try #require(settings.listener(named: "edge"))
        #expect(listener.databases.map(\.value) == ["sensors"])
        #expect(listener.port.value == 4984)
        #expect(listener.interface?.value == "eth0")
        #expect(listener.disableTLS.value == false)
        #expect(listener.identity == .label(Located("plant-gateway")))
        #expect(listener.authenticator?.plugin.value == "password-file")
        #expect(listener.authenticator?.params?["file"]?.scalar?.value == .string("users.txt"))
        #expect(listener.clientCertificates.value == .none)
        #expect(!listener.readOnly && listener.deltaSync && listener.maxConnections == 1000)
        #expect(listener.pullFilter?.plugin.value == "skip-drafts")

        let replicator = try #require(settings.replicator(named: "hub"))
        #expect(replicator.target.value.scheme == .wss)
        #expect(replicator.target.value.host == "hub.example.com")
        #expect(replicator.target.value.port == 4984)
        #expect(replicator.target.value.database == "sensors")
        #expect(replicator.direction == .pushAndPull && replicator.continuous)
        let collection = try #require(replicator.collections.first)
        #expect(collection.collection.value.description == "plant.readings")
        #expect(collection.pushFilter?.plugin.value == "by-owner" && collection.pushFilter?.shadow == nil)
        #expect(collection.pullFilter?.plugin.value == "no-deletes" && collection.pullFilter?.shadow?.plugin.value == "skip-drafts")
        #expect(collection.documentIDs.map(\.value) == ["a", "1"])
        #expect(collection.channels.map(\.value) == ["north"])
        #expect(collection.conflictResolver?.shadow?.plugin.value == "local-wins")
        #expect(replicator.authenticator == .basic(username: Located("u"), password: Secret("hunter2")))
        #expect(replicator.headers == [HTTPHeaderSetting(name: Located("X-Site"), value: Secret("plant-7"))])
        #expect(replicator.pinnedServerCertificates == [.file(Located("/etc/nightjar/hub.pem"))])
        #expect(replicator.networkInterfaces.map(\.value) == ["eth1"])
        #expect(replicator.heartbeat.value == 300)
        #expect(replicator.maxAttempts.value == 0 && replicator.maxAttemptWaitTime.value == 300)
        #expect(replicator.enableAutoPurge.value && replicator.deltaSync)

        let limits = try #require(settings.limits(ofPlugin: "by-owner"))
        #expect(limits.memory?.value == 32 << 20)
        #expect(limits.cpuMilliseconds?.value == 20)
    }

    @Test func paramsKeepTypesAndPositions() throws {
        let listener = try #require(try settings(sample, environment: sampleEnvironment).listener(named: "edge"))
        let params = try #require(listener.pushFilter?.params)
        let types = try #require(params["types"]?.elements)
        #expect(types.map { $0.scalar?.value } == [.string("reading"), .integer(3), .null])
        #expect(params["strict"]?.scalar?.value == .bool(true))
        #expect(types[1].position.description == "nightjar.yaml:22:65")
        #expect(listener.pushFilter?.plugin.position.description == "nightjar.yaml:22:28")
        #expect(params.entries?.last?.keyPosition.column == 76)
    }

    @Test func anEmptyFileMeansDefaults() throws {
        for text in ["", "# nothing\n", "---\n", "{}", "databases:\nlisteners:\nlog:\nadmin:\n"] {
            let settings = try settings(text)
            #expect(settings.data.value == "/etc/nightjar/nightjar-data")
            #expect(settings.databases.isEmpty && settings.listeners.isEmpty && settings.replicators.isEmpty)
            #expect(settings.admin == nil)
        }
    }

    @Test func defaultsOfAShortFile() throws {
        let settings = try settings(
            """
            databases: { main: }
            listeners: [ { name: l, databases: [ main ], interface: lo } ]
            replicators: [ { name: r, database: main, target: "ws://h/main" } ]
            """)
        let replicator = try #require(settings.replicators.first)
        #expect(replicator.collections == [.defaultCollection])
        #expect(replicator.maxAttempts.value == 0 && replicator.maxAttemptWaitTime.value == 300)
        #expect(replicator.authenticator == nil)
        #expect(replicator.target.value.port == 80)
        let listener = try #require(settings.listeners.first)
        #expect(listener.port.value == 4984 && !listener.disableTLS.value && listener.identity == nil)
        #expect(settings.databases.first?.name.position.description == "nightjar.yaml:1:14")
    }

    @Test(arguments: ["watch", "{ plugin: watch, params: { level: 3 } }"])
    func anObserverIsAPlugin(_ text: String) throws {
        let settings = try settings("databases: { main: {} }\nreplicators: [ { name: r, database: main, target: 'ws://h/main', observer: \(text) } ]")
        let observer = try #require(settings.replicators.first?.observer)
        #expect(observer.plugin.value == "watch" && (observer.params != nil) == text.hasPrefix("{"))
    }

    @Test func everyFormOfAuthenticator() throws {
        func authenticator(_ text: String, target: String = "wss://h/main") throws -> ReplicatorAuthenticator? {
            try settings(
                """
                databases: { main: {} }
                replicators:
                  - { name: r, database: main, target: "\(target)", authenticator: \(text) }
                """
            ).replicators.first?.authenticator
        }
        #expect(try authenticator("{ session: s }") == .session(id: Secret("s"), cookie: "SyncGatewaySession", position: .none))
        #expect(try authenticator("{ session: s, cookie: C }") == .session(id: Secret("s"), cookie: "C", position: .none))
        #expect(try authenticator("{ identity: me }") == .identity(.label(Located("me"))))
        #expect(
            try authenticator("{ identity: { certificate: a.pem, key: /k.pem } }")
                == .identity(.files(certificate: Located("/etc/nightjar/a.pem"), key: Located("/k.pem"), passphrase: nil)))
        #expect(try authenticator("{ bearer: t }") == .bearer(Located(Secret("t"))))
        #expect(
            try authenticator("{ iam_api_key: k }", target: "https://h/main")
                == .iam(key: Located(Secret("k")), url: Located("https://iam.cloud.ibm.com/identity/token")))
        #expect(try authenticator("{ plugin: maker }") == .plugin(PluginReference(plugin: "maker")))
        #expect(try authenticator("{ plugin: maker, params: { user: u } }")?.plugin?.params != nil)
    }

    @Test(arguments: [
        ("exec:ssh hub nightjar pipe main", ReplicatorTarget.Scheme.exec, "ssh hub nightjar pipe main"),
        ("unix:run/hub.sock", .unix, "/etc/nightjar/run/hub.sock"),
        ("unix:///run/hub.sock", .unix, "/run/hub.sock"),
        ("serial:/dev/ttyUSB0", .serial, "/dev/ttyUSB0"),
        ("HTTP://[::1]:5984/a/b/", .http, "/a/b"),
    ])
    func targets(_ text: String, _ scheme: ReplicatorTarget.Scheme, _ path: String) throws {
        let target = try ReplicatorTarget(parsing: text, relativeTo: "/etc/nightjar")
        #expect(target.scheme == scheme)
        #expect(target.path == path)
        if scheme == .http {
            #expect(target.host == "::1" && target.port == 5984 && target.database == "b")
        }
    }

    @Test func deltaSyncOfADatabaseMayBeASection() throws {
        let settings = try settings("databases: { a: { delta_sync: { rev_max_age_seconds: 60 } }, b: { delta_sync: false } }")
        #expect(settings.databases.map(\.deltaSync.enabled) == [true, false])
        #expect(settings.databases.first?.deltaSync.maxAgeSeconds == 60)
    }

    @Test func loadsAFileAndResolvesAgainstItsFolder() throws {
        let folder = try TemporaryFolder()
        try folder.write("data: store\nlog: { level: debug }\n", to: "nightjar.yaml")
        let path = "\(folder.path)/nightjar.yaml"
        var settings = try AgentSettings.load(path: path)
        #expect(settings.data.value == "\(folder.path)/store")
        #expect(settings.data.position.description == "\(path):1:7")
        #expect(settings.plugins == nil)
        #expect(settings.file == path && settings.folder == folder.path)

        folder.makeFolder("plugins")
        settings = try AgentSettings.load(path: path, overrides: .init(data: "/elsewhere"))
        #expect(settings.plugins?.value == "\(folder.path)/plugins")
        #expect(settings.data.value == "/elsewhere")
    }

    @Test func theLocationNeedsOnlyData() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/nightjar.yaml"
        let rest = "databases: { main: { colour: red } }\nreplicators: [ { name: r, target: \"${NO_SUCH}\" } ]\n"
        try folder.write("data: ${ROOM}/store\nadmin: { token: \"${file:not-for-everybody}\" }\n" + rest, to: "nightjar.yaml")
        let settings = try AgentSettings.location(path: path, environment: ["ROOM": "/srv"])
        #expect(settings.data.value == "/srv/store" && settings.admin == nil)
        #expect(settings.databases.isEmpty)
        let unknown = #expect(throws: ConfigurationProblems.self) { try AgentSettings.location(path: path, environment: [:]) }
        #expect(unknown?.problems.map(\.line) == [1])
        #expect(throws: ConfigurationProblems.self) { try AgentSettings.load(path: path, environment: ["ROOM": "/srv"]) }
    }

    @Test func aMissingFileIsAProblem() throws {
        let error = #expect(throws: ConfigurationProblems.self) { try AgentSettings.load(path: "/nonexistent/nightjar.yaml") }
        #expect(error?.description == "/nonexistent/nightjar.yaml: cannot be read: No such file or directory")
        let folder = #expect(throws: ConfigurationProblems.self) { try AgentSettings.load(path: "/tmp") }
        #expect(folder?.description == "/tmp: cannot be read: Is a directory")
    }

    @Test("a named pipe that nobody writes to does not block for ever; one that is written to, and one from a shell, are read", .timeLimit(.minutes(1)))
    func pipes() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/nightjar.yaml"
        try #require(mkfifo(path, 0o600) == 0)
        let error = #expect(throws: ConfigurationProblems.self) { try AgentSettings.load(path: path) }
        #expect(error?.description.contains("nothing arrived from it within 10 seconds (config_wait)") == true, "\(String(describing: error))")

        let text = "data: /srv/store\ndatabases: { main: {} }\n"
        // Keeps what is written, until it is read.
        let reader = open(path, O_RDONLY | O_NONBLOCK)
        defer { close(reader) }
        let writer = open(path, O_WRONLY)
        try #require(reader >= 0 && writer >= 0)
        #expect(write(writer, text, text.utf8.count) == text.utf8.count)
        close(writer)
        #expect(try AgentSettings.load(path: path).data.value == "/srv/store")

        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        #expect(write(ends[1], text, text.utf8.count) == text.utf8.count)
        close(ends[1])
        #expect(try AgentSettings.load(path: "/dev/fd/\(ends[0])").data.value == "/srv/store")
    }

    @Test func theEmbeddedDefault() throws {
        let settings = AgentSettings.embeddedDefault(data: "/d", plugins: "/p")
        #expect(settings.data.value == "/d")
        #expect(settings.plugins?.value == "/p")
        #expect(settings.databases.map(\.name.value) == ["main"])
        let listener = try #require(settings.listeners.first)
        #expect(listener.port.value == 4984 && listener.interface?.value == "127.0.0.1" && listener.disableTLS.value)
        #expect(AgentSettings.embeddedDefault().data.value.hasSuffix("/nightjar-data"))
    }
}
