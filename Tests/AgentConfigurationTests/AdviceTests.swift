import AgentConfiguration
import Testing

@Suite("What is valid but probably not intended")
struct AdviceTests {
    private func advice(_ keys: String, target: String = "wss://hub/main") throws -> [String] {
        let read = try settings("databases: { main: {} }\nreplicators: [ { name: hub, database: main, target: \"\(target)\"\(keys) } ]\n")
        return read.advice(plugins: nil).map(\.description)
    }

    @Test("a filter or transform for a direction in which the replicator does not replicate", arguments: [
        ("pull", "push_filter"), ("pull", "push_transform"), ("push", "pull_filter"), ("push", "pull_transform"),
    ])
    func otherWay(_ type: String, _ key: String) throws {
        let collections = ", collections: { _default: { \(key): { plugin: gate } } }"
        let told = try advice(", type: \(type)\(collections)")
        #expect(told.count == 1 && told.first?.hasPrefix("nightjar.yaml:2:") == true, "\(told)")
        #expect(told.first?.contains("replicator \"hub\": \(key) has no effect, since type is \(type): take it out") == true, "\(told)")
        #expect(try advice(", type: push_and_pull\(collections)").isEmpty)
    }

    @Test("settings for pulled documents, if the replicator only pushes", arguments: [
        ("channels", "collections: { _default: { channels: [ a, b ] } }"), ("enable_auto_purge", "enable_auto_purge: false"),
        ("conflict_resolver", "collections: { _default: { conflict_resolver: { plugin: merge } } }"),
    ])
    func pushOnly(_ key: String, _ text: String) throws {
        let told = try advice(", type: push, \(text)")
        #expect(told.count == 1 && told.first?.hasPrefix("nightjar.yaml:2:") == true, "\(told)")
        #expect(told.first?.contains("replicator \"hub\": \(key) has no effect, since type is push: take it out") == true, "\(told)")
        for type in ["pull", "push_and_pull"] { #expect(try advice(", type: \(type), \(text)").isEmpty) }
        // Once, though two things are against it.
        if key == "enable_auto_purge" { #expect(try advice(", type: push, \(text)", target: "https://hub/main").count == 1) }
    }

    @Test("enable_auto_purge of a database of CouchDB", arguments: [("http", true), ("https", false)])
    func autoPurge(_ scheme: String, _ isOn: Bool) throws {
        let told = try advice(", enable_auto_purge: \(isOn)", target: "\(scheme)://hub/main")
        #expect(told.count == 1 && told.first?.contains("enable_auto_purge has no effect, since the target is \(scheme):") == true, "\(told)")
        #expect(try advice("", target: "\(scheme)://hub/main").isEmpty)
        #expect(try advice(", enable_auto_purge: \(isOn)").isEmpty)
    }
}
