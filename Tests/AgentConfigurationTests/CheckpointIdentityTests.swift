import AgentConfiguration
import Testing

@Suite("Checkpoints of replicators")
struct CheckpointIdentityTests {
    @Test func replicatorsThatWouldShareACheckpointAreRefused() {
        func two(_ first: String, _ second: String) -> [ConfigurationProblem] {
            problems(
                """
                databases: { main: { collections: [ s.a ] } }
                replicators:
                  - { name: one, database: main, target: "ws://h/main"\(first) }
                  - { name: two, database: main, target: "ws://h/main"\(second) }
                """)
        }
        let found = two("", ", continuous: true, headers: { a: b }")
        #expect(found.count == 1 && found.first?.line == 4)
        #expect(found.first?.message.contains("\"two\" and \"one\" would share a checkpoint") == true)
        #expect(found.first?.message.contains("another document_ids, channels, selector, source_filter or pull_filter") == true)
        #expect(two(", collections: { s.a: { channels: [ x, y ] } }", ", collections: { _default: {}, s.a: { channels: [ y, x ] } }").count == 1)
        // What makes a checkpoint of its own.
        for other in [
            ", type: pull", ", collections: { s.a: {} }", ", collections: { _default: { channels: [ x ] } }",
            ", collections: { _default: { document_ids: [ x ] } }", ", collections: { _default: { pull_filter: f } }",
        ] { #expect(two("", other).isEmpty, "\(other)") }
        func choice(_ text: String) -> String { ", target: \"http://h/main\", collections: { _default: { \(text) } }" }
        func sharing(_ one: String, _ other: String) -> Int {
            problems(
                """
                databases: { main: {} }
                replicators:
                  - { name: one, database: main\(choice(one)) }
                  - { name: two, database: main\(choice(other)) }
                """
            ).count
        }
        #expect(sharing("selector: { a: 1, b: 2 }", "selector: { b: 2, a: 1 }") == 1)
        #expect(sharing("selector: { a: 1 }", "selector: { a: 2 }") == 0)
        #expect(sharing("source_filter: x/y", "source_filter: { filter: x/y }") == 1)
        // By what they mean, as the checkpoint goes, and not by how they are written.
        #expect(sharing("selector: { type: reading }", "selector: { \"type\": \"reading\" }") == 1)
        #expect(sharing("selector: { a: 1 }", "selector: { a: \"1\" }") == 0)
        #expect(sharing("selector: { a: [ 1, 0x10 ] }", "selector: { a: [ 1, 16 ] }") == 1)
        #expect(sharing("source_filter: x/y", "source_filter: { filter: x/y, params: {} }") == 1)
        #expect(sharing("source_filter: { filter: x/y, params: { a: 1, b: z } }", "source_filter: { filter: x/y, params: { b: 'z', a: \"1\" } }") == 1)
        #expect(sharing("source_filter: { filter: x/y, params: { a: [ r, 1, true ] } }", "source_filter: { filter: x/y, params: { a: '[\"r\",1,true]' } }") == 1)
        #expect(sharing("source_filter: { filter: x/y, params: { a: 1 } }", "source_filter: { filter: x/y, params: { a: 2 } }") == 0)
    }
}
