import AgentConfiguration
import Documents
import Testing

@testable import Agent

/// Which replicator a pending conflict came with.
@Suite("The origin of a pending conflict")
struct ConflictOriginTests {
    @Test("it is one that pulls the conflict's collection from that remote")
    func origin() throws {
        let text = """
            databases: { main: { collections: [ plant.readings ] }, other: {} }
            replicators:
              - { name: up, database: main, target: "ws://hub/main", type: push, continuous: true }
              - { name: readings, database: main, target: "ws://hub/main", type: pull, collections: { plant.readings: {} } }
              - { name: down, database: main, target: "ws://hub/main", type: pull }
              - { name: elsewhere, database: other, target: "ws://hub/main" }

            """
        let settings = try AgentSettings.parse(Array(text.utf8), file: "f", folder: "/")
        func names(_ collection: CollectionName, _ database: String, _ remote: String = "ws://hub/main") -> [String] {
            settings.replicators(pulling: collection, of: database, from: remote).map(\.name.value)
        }
        #expect(names(.default, "main") == ["down"])
        #expect(try names(CollectionName(parsing: "plant.readings"), "main") == ["readings"])
        #expect(names(.default, "other") == ["elsewhere"])
        #expect(names(.default, "main", "ws://hub/second").isEmpty)
    }
}
