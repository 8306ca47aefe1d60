import AgentConfiguration
import Testing

@Suite("Differences between two configurations")
struct DifferenceTests {
    private func difference(_ edit: (String) -> String, environment: [String: String] = sampleEnvironment) throws -> SettingsDifference {
        let old = try settings(sample, environment: sampleEnvironment)
        let new = try settings(edit(sample), environment: environment)
        return new.difference(from: old)
    }

    @Test func noneWhereOnlyTheWritingDiffers() throws {
        #expect(try difference { $0 }.isEmpty)
        #expect(try difference { "# moved down\n\n" + $0 }.isEmpty)
        #expect(try difference { $0.replacing("    heartbeat: 300 ", with: "").replacing("                            # seconds\n    max_attempts", with: "\n    max_attempts") }.isEmpty)
        #expect(try difference { $0.replacing("type: push_and_pull", with: "type: 'push_and_pull'") }.isEmpty)
        #expect(try difference { $0.replacing("{ types: [ reading, 3, null ], strict: true }", with: "{ strict: true, types: [ 'reading', 3, ~ ] }") }.isEmpty)
    }

    @Test func aChangedReplicatorLeavesTheOthersAlone() throws {
        let more = "  - { name: second, database: sensors, target: exec:true }\n  - { name: third, database: sensors, target: exec:third }\nplugin_limits:"
        let old = try settings(sample.replacing("plugin_limits:", with: more), environment: sampleEnvironment)
        let new = try settings(
            sample.replacing("plugin_limits:", with: more.replacing("third", with: "fourth")).replacing("heartbeat: 300", with: "heartbeat: 60"),
            environment: sampleEnvironment)
        let difference = new.difference(from: old)
        #expect(difference.replicators.changed == [.init(name: "hub", keys: ["heartbeat"])])
        #expect(difference.replicators.added == ["fourth"])
        #expect(difference.replicators.removed == ["third"])
        #expect(difference.databases.isEmpty && difference.listeners.isEmpty && difference.pluginLimits.isEmpty && difference.global.isEmpty)
    }

    @Test func whatIsBehindAnExpansionCounts() throws {
        let difference = try difference({ $0 }, environment: ["HUB_PASSWORD": "other"])
        #expect(difference.replicators.changed == [.init(name: "hub", keys: ["authenticator"])])
    }

    @Test func aSecretFromAnotherPlaceCountsAlthoughItIsTheSameNow() throws {
        let folder = try TemporaryFolder()
        try folder.write("opensesame\n", to: "one.secret")
        try folder.write("opensesame\n", to: "two.secret")
        func read(_ password: String) throws -> AgentSettings {
            try settings(
                "databases: { main: {} }\nreplicators:\n  - { name: hub, database: main, target: \"ws://h/d\", "
                    + "authenticator: { username: u, password: \"\(password)\" } }",
                folder: folder.path, environment: ["P": "opensesame"])
        }
        let ways = ["${P}", "${file:one.secret}", "${file:two.secret}"]
        for (old, before) in ways.enumerated() {
            for (new, after) in ways.enumerated() {
                let changed = try read(after).difference(from: try read(before)).replicators.changed
                #expect(changed == (old == new ? [] : [.init(name: "hub", keys: ["authenticator"])]), "\(before) to \(after)")
            }
        }
        #expect(try read("opensesame").difference(from: try read("${P}")).isEmpty)
    }

    @Test func aFileThatDoesNotSayItWantsNoDatabaseHasLostThem() throws {
        let old = try settings("databases: { main: {}, side: {} }")
        for text in ["", "# nothing\n", "log: { level: info }", "databases:\n", "databases: ~\n"] {
            let new = try settings(text)
            let lost = try #require(new.lostDatabases(from: old), "\(text)")
            #expect(lost.description.hasPrefix("nightjar.yaml: ") && lost.message.contains("has 2"), "\(lost)")
            #expect(new.advice(plugins: nil).map(\.message).contains { $0.contains("no database, no listener and no replicator") }, "\(text)")
            #expect(new.lostDatabases(from: new) == nil)
        }
        let meant = try settings("databases: {}")
        #expect(meant.lostDatabases(from: old) == nil && meant.advice(plugins: nil).isEmpty)
        #expect(try settings("databases: { main: {} }").lostDatabases(from: old) == nil)
    }

    @Test(arguments: [
        ("{ types: [ reading, 3, null ]", "{ types: [ reading, 4, null ]", "push_filter"),
        ("identity: plant-gateway", "identity: { certificate: a, key: b }", "identity"),
        ("port: 4984  ", "port: 4986  ", "port"),
        ("file: users.txt", "file: \"users.txt \"", "authenticator"),
    ])
    func listenerKeys(_ before: String, _ after: String, _ key: String) throws {
        let difference = try difference { $0.replacing(before, with: after) }
        #expect(difference.listeners.changed == [.init(name: "edge", keys: [key])])
        #expect(difference.replicators.isEmpty && difference.global.isEmpty)
    }

    @Test func databasesGlobalSectionsAndLimits() throws {
        let difference = try difference {
            $0.replacing("conflicts: 1000 }", with: "conflicts: 10 }").replacing("level: info", with: "level: error")
                .replacing("port: 4985", with: "port: 4990").replacing("memory: 32MiB", with: "memory: 33554432")
                .replacing("cpu_ms: 20,", with: "cpu_ms: 21,").replacing("data: /var", with: "data: /srv")
        }
        #expect(difference.databases.changed == [.init(name: "sensors", keys: ["history"])])
        #expect(difference.pluginLimits.changed == [.init(name: "by-owner", keys: ["cpu_ms"])])
        #expect(difference.global == [.log, .admin, .data])
    }

    @Test func anAdminPortThatIsTakenOutIsAChange() throws {
        let difference = try difference { $0.replacing("admin: { address: 127.0.0.1, port: 4985 }", with: "") }
        #expect(difference.global == [.admin])
    }

    @Test func idsAreComparedAsBytes() throws {
        func replicators(_ id: String) throws -> AgentSettings {
            try settings(
                "databases: { m: {} }\nreplicators: [ { name: r, database: m, target: exec:x, collections: { _default: { document_ids: [ \(id) ] } } } ]")
        }
        let difference = try replicators("caf\u{E9}").difference(from: try replicators("cafe\u{301}"))
        #expect(difference.replicators.changed == [.init(name: "r", keys: ["collections"])])
    }
}
