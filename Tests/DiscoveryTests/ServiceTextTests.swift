@testable import Discovery
import Testing

/// What a service says of itself.
@Suite("TXT records")
struct ServiceTextTests {
    @Test("what was written is read again")
    func roundTrip() {
        var text = ServiceText()
        text.databases = ["main", "plant"]
        text.usesTLS = true
        text.peer = "0123"
        text.pin = "sha256/abc="
        text.nextPin = "sha256/def="
        text.group = "hubs"
        #expect(ServiceText(strings: text.strings) == text)
    }

    @Test("databases that do not fit into 255 bytes are left out entirely")
    func manyDatabases() {
        var text = ServiceText()
        text.databases = (0..<100).map { "database-\($0)" }
        #expect(text.strings.allSatisfy { $0.count <= 255 })
        let read = ServiceText(strings: text.strings).databases
        #expect(!read.isEmpty)
        #expect(read == Array(text.databases.prefix(read.count)))
    }

    @Test("keys are case-insensitive, the first of two counts, and what is not text is skipped")
    func strange() {
        let strings = ["DB=one", "db=two", "alone", "other=x"].map { Array($0.utf8) } + [[0xFF, 0x3D], []]
        #expect(ServiceText(strings: strings).databases == ["one"])
    }
}
