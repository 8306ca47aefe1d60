import Documents
import DocumentStore
import Interfaces
import Replication
import Testing

/// What happens to documents when access to their channel is revoked and granted again: the tables in Couchbase Lite's documentation, row
/// by row.
@Suite(.timeLimit(.minutes(10)))
struct AccessTests {
    /// A hub whose sync function lets nobody write to a channel that they do not have. The document `card` says which channels anna has.
    private struct Guarded {
        let routed: ChannelTests.RoutedHub
        var anna: Hub { routed.hub("anna") }

        init() async throws {
            routed = try await ChannelTests.RoutedHub()
            routed.function.become("1") { object, request in
                guard case .accepted(var assignment) = TestSync.byFields(object, request) else { return .rejected(reason: "bad") }
                if let role = object["role"]?.asString { assignment.roles = ["anna": [role]] }
                guard request.caller.isAdmin || assignment.channels.allSatisfy(request.caller.channels.contains) else {
                    return .rejected(reason: "missing channel access")
                }
                return .accepted(assignment)
            }
            try await grant("{\"anna\":[\"red\",\"blue\"]}")
            try await put("only-red", in: "red")
            try await put("both", in: "red", "blue")
        }

        func put(_ id: String, in channels: String...) async throws {
            let list = channels.map { "\"\($0)\"" }.joined(separator: ",")
            try await routed.database.put(id, "{\"in\":[\(list)]}")
            try await settled(id)
        }

        func grant(_ channels: String, more: String = "") async throws {
            try await routed.database.put("card", "{\"give\":\(channels)\(more)}")
            try await settled("card")
        }

        func revokeRed() async throws { try await grant("{\"anna\":[\"blue\"]}") }
        func reassignRed() async throws { try await grant("{\"anna\":[\"red\",\"blue\"]}") }

        private func settled(_ id: String) async throws {
            let collection = try routed.database.collection()
            try await routed.database.wait { try await $0.database.read { try $0.assignedChannels(collection, doc(id)) } != nil }
        }
    }

    private func ids(_ database: TestDatabase) async throws -> [String] {
        let collection = try database.collection()
        return try await database.database.read {
            try $0.changes(collection, since: 0, limit: 1000, includeBodies: false, includeDeleted: false).map(\.id.text).sorted()
        }
    }

    /// Runs once and returns the status, as many document events as are expected, and the orphans that there are afterwards.
    private func run(
        _ device: TestDatabase, _ hub: Hub, _ type: ReplicatorType, telling count: Int = 0, reset: Bool = false,
        _ change: (inout ReplicatorConfiguration) -> Void = { _ in }
    ) async throws -> (status: ReplicatorStatus, told: [String], orphans: [String]) {
        let replicator = Replicator(ReplicatorConfiguration(device, type, change), hub)
        let events = replicator.documentEvents()
        let status = await replicator.run(reset: reset)
        let counts = replicator.rawCounts
        #expect(status.error == nil && counts.completed == counts.total)
        var told: [String] = []
        if count > 0 {
            for await batch in events {
                told += batch.map { event in
                    let flag = event.isAccessRemoved ? " access_removed" : ""
                    return "\(event.direction) \(event.id)\(flag)\(event.error.map { " \($0.domain)/\($0.code)" } ?? "")"
                }
                if told.count >= count { break }
            }
        }
        var orphans: [String] = []
        try await replicator.forEachOrphaned { orphans += $0.map { "\($0.1.id): \($0.1.error)" } }
        return (status, told, orphans)
    }

    // MARK: - Table 2: access revoked

    @Test func revokedPullOnly() async throws {
        let hub = try await Guarded()
        let device = try TestDatabase("device")
        _ = try await run(device, hub.anna, .pull)
        #expect(try await ids(device) == ["both", "only-red"])
        try await hub.revokeRed()
        let run = try await run(device, hub.anna, .pull, telling: 1)
        // A document that is in another of the user's channels stays.
        #expect(try await ids(device) == ["both"])
        #expect(try await device.get("only-red") == nil)
        #expect(run.told == ["pull only-red access_removed"] && run.orphans == [])
        #expect(run.status.counts.failed == 0 && run.status.counts.pulled == 0)
        #expect(run.status.counts.total == 1 && run.status.counts.completed == 1, "a revocation should count once: \(run.status.counts)")
        let later = try await self.run(device, hub.anna, .pull)
        #expect(later.status.counts.total == 0, "\(later.status.counts)")
    }

    @Test func revokedPushOnly() async throws {
        let hub = try await Guarded()
        let device = try TestDatabase("device")
        try await device.put("mine", "{\"in\":[\"red\"]}")
        #expect(try await run(device, hub.anna, .push).status.counts.pushed == 1)
        try await hub.revokeRed()
        try await device.put("mine", "{\"in\":[\"red\"],\"n\":2}")
        let run = try await run(device, hub.anna, .push, telling: 1)
        #expect(run.told == ["push mine http/403"] && run.status.counts.failed == 1 && run.status.counts.pushed == 0)
        #expect(try await device.body("mine") == "{\"in\":[\"red\"],\"n\":2}")
        #expect(try await hub.routed.database.body("mine") == "{\"in\":[\"red\"]}")
    }

    @Test func revokedPushAndPull() async throws {
        let hub = try await Guarded()
        let device = try TestDatabase("device")
        _ = try await run(device, hub.anna, .pushAndPull)
        try await hub.revokeRed()
        try await device.put("mine", "{\"in\":[\"red\"]}")
        let run = try await run(device, hub.anna, .pushAndPull, telling: 2)
        #expect(run.told.sorted() == ["pull only-red access_removed", "push mine http/403"] && run.orphans == [])
        #expect(try await ids(device) == ["both", "mine"])
        #expect(try await hub.routed.database.get("mine") == nil)
    }

    /// The ways in which a user loses a channel.
    @Test(arguments: ["user leaves role", "channel leaves role"])
    func revokedByRole(_ way: String) async throws {
        let hub = try await Guarded()
        let device = try TestDatabase("device")
        try await hub.grant("{\"role:crew\":[\"red\"],\"anna\":[\"blue\"]}", more: ",\"role\":\"crew\"")
        _ = try await run(device, hub.anna, .pull)
        #expect(try await ids(device) == ["both", "only-red"])
        if way == "user leaves role" {
            try await hub.grant("{\"role:crew\":[\"red\"],\"anna\":[\"blue\"]}")
        } else {
            try await hub.grant("{\"anna\":[\"blue\"]}", more: ",\"role\":\"crew\"")
        }
        let run = try await run(device, hub.anna, .pull, telling: 1)
        #expect(run.told == ["pull only-red access_removed"])
        #expect(try await ids(device) == ["both"])
    }

    // MARK: - Table 3: access granted again

    @Test func reassignedPullOnly() async throws {
        let hub = try await Guarded()
        let device = try TestDatabase("device")
        for step in [hub.revokeRed, hub.reassignRed] {
            _ = try await run(device, hub.anna, .pull)
            try await step()
        }
        _ = try await run(device, hub.anna, .pull)
        try await hub.put("only-red", in: "red")
        _ = try await run(device, hub.anna, .pull)
        #expect(try await ids(device) == ["both", "only-red"])
    }

    @Test(arguments: [ReplicatorType.push, .pushAndPull])
    func reassignedWithPush(_ type: ReplicatorType) async throws {
        let hub = try await Guarded()
        let device = try TestDatabase("device")
        _ = try await run(device, hub.anna, type)
        try await hub.revokeRed()
        for id in ["m1", "m2"] { try await device.put(id, "{\"in\":[\"red\"]}") }
        #expect(try await run(device, hub.anna, type).status.counts.failed == 2)
        #expect(try await ids(device) == (type == .push ? ["m1", "m2"] : ["both", "m1", "m2"]))
        try await hub.reassignRed()
        try await hub.put("only-red", in: "red")
        // What was refused is on a list, and is offered again on the next connection.
        try await device.put("m2", "{\"in\":[\"red\"],\"n\":2}")
        #expect(try await run(device, hub.anna, type).status.counts.pushed == 2)
        #expect(try await hub.routed.database.body("m1") == "{\"in\":[\"red\"]}")
        #expect(try await hub.routed.database.body("m2") == "{\"in\":[\"red\"],\"n\":2}")
        #expect(try await ids(device) == (type == .push ? ["m1", "m2"] : ["both", "m1", "m2", "only-red"]))
        #expect(try await run(device, hub.anna, type, reset: true).status.counts.pushed == 0)
    }

    // MARK: - Table 4: overrides

    @Test(arguments: [
        (true, nil, "access_removed", nil),
        (true, "reject", "http/403", "the pull filter keeps it"),
        (true, "fail", "plugin/503", "filter.lua:1: broken"),
        (false, nil, "access_removed", "the replicator does not purge it (enable_auto_purge, document_ids)"),
        (false, "reject", "access_removed", "the replicator does not purge it (enable_auto_purge, document_ids)"),
    ] as [(Bool, String?, String, String?)])
    func overrides(_ purges: Bool, _ verdict: String?, _ told: String, _ reason: String?) async throws {
        let hub = try await Guarded()
        let device = try TestDatabase("device")
        let filter = TestFilter { _, _ in .pass }
        if let verdict {
            let failure = filter.failure()
            filter.become("1") { document, _ in document.accessRemoved ? verdict == "reject" ? .reject : failure : .pass }
        }
        func settings(_ configuration: inout ReplicatorConfiguration) {
            configuration.autoPurge = purges
            if verdict != nil { configuration.only { $0.pullFilter = filter } }
        }
        _ = try await run(device, hub.anna, .pull, settings)
        try await hub.revokeRed()
        let lost = try await run(device, hub.anna, .pull, telling: 1, settings)
        #expect(lost.told == ["pull only-red \(told)"])
        #expect(lost.orphans == reason.map { ["only-red: \($0)"] } ?? [])
        #expect(lost.status.counts.rejected == (told == "http/403" ? 1 : 0) && lost.status.counts.held == (told == "plugin/503" ? 1 : 0))
        #expect(lost.status.counts.failed == 0 && lost.status.counts.total == 1, "\(lost.status.counts)")
        #expect(try await ids(device) == (reason == nil ? ["both"] : ["both", "only-red"]))
        if verdict == "fail" {
            // Once the filter works again, it decides.
            filter.become("2") { _, _ in .pass }
            let again = try await run(device, hub.anna, .pull, telling: 1, settings)
            #expect(again.told == ["pull only-red access_removed"] && again.orphans == [])
        }
        try await hub.reassignRed()
        try await hub.put("only-red", in: "red")
        #expect(try await run(device, hub.anna, .pull, settings).orphans == [])
        #expect(try await ids(device) == ["both", "only-red"])
    }

    /// There are more of them than are decided in one transaction.
    @Test func aFilterThatWorksAgainDecidesAboutEverythingItFailedOn() async throws {
        let hub = try await Guarded()
        let more = ["a", "b", "c", "d"]
        for id in more { try await hub.put(id, in: "red") }
        let device = try TestDatabase("device")
        let filter = TestFilter { _, _ in .pass }
        let failure = filter.failure()
        filter.become("1") { document, _ in document.accessRemoved ? failure : .pass }
        func settings(_ configuration: inout ReplicatorConfiguration) {
            configuration.limits.insertionBatch = 2
            configuration.only { $0.pullFilter = filter }
        }
        _ = try await run(device, hub.anna, .pull, settings)
        try await hub.revokeRed()
        #expect(try await run(device, hub.anna, .pull, settings).orphans.count == 5)
        filter.become("2") { _, _ in .pass }
        #expect(try await run(device, hub.anna, .pull, settings).orphans == [])
        #expect(try await ids(device) == ["both"])
    }

    @Test func anEditThatTheRemoteDoesNotHaveIsKept() async throws {
        let hub = try await Guarded()
        let device = try TestDatabase("device")
        _ = try await run(device, hub.anna, .pushAndPull)
        // An edit that the hub already has is no reason to keep anything.
        try await device.put("both", "{\"in\":[\"red\"],\"n\":1}")
        #expect(try await run(device, hub.anna, .pushAndPull).status.counts.pushed == 1)
        let edit = "{\"in\":[\"red\"],\"n\":2}"
        try await device.put("only-red", edit)
        try await hub.revokeRed()
        let lost = try await run(device, hub.anna, .pushAndPull, telling: 3)
        #expect(lost.told.sorted() == ["pull both access_removed", "pull only-red http/409", "push only-red http/403"])
        #expect(lost.orphans.count == 1 && lost.orphans.first?.contains("only-red: an edit made here has not reached the remote") == true)
        #expect(try await ids(device) == ["only-red"])
        #expect(try await device.body("only-red") == edit)
        // Once the user has the channel again, the edit goes where it was meant to go.
        try await hub.reassignRed()
        _ = try await run(device, hub.anna, .pushAndPull)
        #expect(try await hub.routed.database.body("only-red") == edit)
        #expect(try await run(device, hub.anna, .pushAndPull).orphans == [])
        #expect(try await ids(device) == ["both", "only-red"])
    }

    /// Edits a document while it is asked whether the document may be removed.
    private struct EditingFilter: DocumentFilter {
        let device: TestDatabase
        let pluginName = "edits"
        let version = "1"

        func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
            for document in documents where document.accessRemoved { _ = try? await device.put(document.id.text, "{\"in\":[\"red\"],\"late\":true}") }
            return documents.map { _ in .pass }
        }

        func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
    }

    @Test func anEditMadeWhileTheFilterDecidesIsKept() async throws {
        let hub = try await Guarded()
        let device = try TestDatabase("device")
        let filter = EditingFilter(device: device)
        func settings(_ configuration: inout ReplicatorConfiguration) { configuration.only { $0.pullFilter = filter } }
        _ = try await run(device, hub.anna, .pushAndPull, settings)
        try await hub.revokeRed()
        let lost = try await run(device, hub.anna, .pushAndPull, settings)
        #expect(try await device.body("only-red") == "{\"in\":[\"red\"],\"late\":true}")
        #expect(lost.orphans.count == 1 && lost.orphans.first?.contains("only-red: an edit made here has not reached the remote") == true)
    }

    @Test func chosenDocumentsAreNotPurged() async throws {
        let hub = try await Guarded()
        let device = try TestDatabase("device")
        func settings(_ configuration: inout ReplicatorConfiguration) { configuration.only { $0.documentIDs = [doc("only-red")] } }
        _ = try await run(device, hub.anna, .pull, settings)
        try await hub.revokeRed()
        let lost = try await run(device, hub.anna, .pull, telling: 1, settings)
        #expect(lost.told == ["pull only-red access_removed"] && lost.orphans.count == 1)
        #expect(try await ids(device) == ["only-red"])
        // If it is told again, it has still been an orphan since the first time.
        let collection = try device.collection()
        func orphans() async throws -> [Exclusion] {
            try await device.database.read { try $0.exclusions(collection, direction: .access, limit: 10) }
        }
        var orphan = try #require(await orphans().first)
        orphan.since = 1_000
        try await device.database.write { [orphan] in
            try $0.unexclude(collection, remote: orphan.remote, direction: .access, ids: [orphan.id])
            try $0.exclude(collection, [orphan])
        }
        let again = try await run(device, hub.anna, .pull, telling: 1, reset: true, settings)
        #expect(again.told == lost.told)
        #expect(try await orphans().map(\.since) == [1_000])
        // A deleted document is not an orphan.
        try await device.put("only-red", "{}", deleted: true)
        #expect(try await run(device, hub.anna, .pull, settings).orphans == [])
    }

    @Test func theSettingAffectsOnlyLaterRemovals() async throws {
        let hub = try await Guarded()
        let device = try TestDatabase("device")
        _ = try await run(device, hub.anna, .pull) { $0.autoPurge = false }
        try await hub.revokeRed()
        _ = try await run(device, hub.anna, .pull) { $0.autoPurge = false }
        let later = try await run(device, hub.anna, .pull)
        #expect(later.orphans.count == 1 && later.status.counts.total == 0)
        #expect(try await ids(device) == ["both", "only-red"])
    }
}
